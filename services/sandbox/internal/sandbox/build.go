package sandbox

import (
	"context"
	"errors"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// build makes a sandbox from the bucket's current snapshot. When that cannot be restored, nothing is made.
func (m *Manager) build(ctx context.Context, bucket string, want Want) (*Live, error) {
	name := want.Driver
	if name == "" {
		if name = m.DefaultDriver(ctx); name == "" {
			name = m.order[0] // its refusal says what is missing
		}
	}
	d := m.drivers[name]
	if d == nil {
		return nil, Errorf(errdefs.ErrFailedPrecondition, ReasonDriverNotConfigured, "there is no driver %q; Probe lists those there are", name).With("driver", name)
	}
	head, err := m.reserve(ctx, bucket, func(h *Head) {
		// No sandbox lives, so what an earlier one had not saved is lost, also when nothing of it is left on this machine.
		h.lose()
		h.Generation++
	})
	if err != nil {
		return nil, err
	}
	spec := Spec{
		ID: newID("s"), Driver: name, Bucket: bucket, Generation: head.Generation, HostDir: want.HostDir, Created: m.now(),
		Limits: want.Limits.WithDefaults(m.set.Defaults).capped(m.set.Maximum), LostSince: head.lostSince(), OrphanTimeout: m.set.OrphanTimeout,
	}
	var snapshot Manifest
	if head.Snapshot != "" && d.Capabilities().Snapshots {
		if snapshot, err = m.store.Manifest(ctx, bucket, head.Snapshot); err != nil {
			return nil, err
		}
		spec.Records, spec.Restored = snapshot.Records, snapshot.ID
	}
	in, err := d.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if snapshot.ID != "" {
		if err := restoreInto(ctx, m.store, snapshot, in); err != nil {
			return nil, errors.Join(err, in.Destroy(context.WithoutCancel(ctx)))
		}
	}
	l := m.newLive(d, in, head)
	if want.Idle > 0 {
		l.idle = min(want.Idle, m.set.MaxIdleTimeout)
	}
	return l, nil
}

func restoreInto(ctx context.Context, store SnapshotStore, snapshot Manifest, in Instance) error {
	tree, err := in.Files(ctx, AsCommand)
	if err != nil {
		return err
	}
	return errors.Join(restoreArchive(ctx, store, snapshot, tree), tree.Close())
}
