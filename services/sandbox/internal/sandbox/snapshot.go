package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// maxSnapshotRecords bounds the effects that a snapshot carries: the newest, since older ones are refused by their age.
const maxSnapshotRecords = 2000

// Save takes a snapshot of a sandbox that the caller holds.
func (m *Manager) Save(ctx context.Context, l *Live, label string, pin bool) (Manifest, time.Duration, error) {
	if !l.Caps.Snapshots {
		return Manifest{}, 0, Unimplemented("Snapshot", "this driver has none; its files stay where they are")
	}
	return m.save(ctx, l, label, pin)
}

// save archives, verifies, and only then moves the head, if this sandbox is still the bucket's newest generation.
func (m *Manager) save(ctx context.Context, l *Live, label string, pin bool) (s Manifest, frozen time.Duration, err error) {
	l.files.Lock()
	defer l.files.Unlock()
	spec := l.Instance.Spec()
	m.mu.Lock()
	paused := l.state == LivePaused
	parent, token := l.parent, l.next-1
	m.mu.Unlock()
	start := time.Now()
	if err := l.Instance.Freeze(ctx); err != nil {
		return s, 0, err
	}
	s, err = m.capture(ctx, l)
	if !paused {
		err = errors.Join(err, l.Instance.Thaw(context.WithoutCancel(ctx)))
	}
	frozen = time.Since(start)
	if err != nil {
		return Manifest{}, frozen, err
	}
	s.Parent, s.Generation, s.Token, s.Created, s.Label, s.Pinned = parent, spec.Generation, token, m.now(), label, pin
	if err := verifyArchive(ctx, m.store, s); err != nil {
		return Manifest{}, frozen, err
	}
	if s.ID, err = m.store.PutManifest(ctx, s); err != nil {
		return Manifest{}, frozen, err
	}
	_, err = m.update(ctx, spec.Bucket, func(h *Head) error {
		if h.Generation != spec.Generation {
			return Errorf(errdefs.ErrAborted, ReasonFenced, "the bucket has a newer sandbox, so this one may not save any more")
		}
		h.Snapshot = s.ID
		return nil
	})
	if err != nil {
		return Manifest{}, frozen, errors.Join(err, m.store.Delete(context.WithoutCancel(ctx), spec.Bucket, s.ID))
	}
	m.mu.Lock()
	l.parent, l.lastSave = s.ID, m.now()
	l.dirty = l.running > 0
	m.mu.Unlock()
	return s, frozen, m.prune(ctx, spec.Bucket, s.ID)
}

// capture archives the workspace and the records, which belong together: both are taken while the commands stand still.
func (m *Manager) capture(ctx context.Context, l *Live) (Manifest, error) {
	records, err := l.Instance.Execs(ctx)
	if err != nil {
		return Manifest{}, err
	}
	tree, err := l.Instance.Files(ctx, AsReader)
	if err != nil {
		return Manifest{}, err
	}
	defer tree.Close()
	s, err := takeArchive(ctx, tree, m.store, l.Instance.Spec().Bucket)
	if err != nil {
		return Manifest{}, err
	}
	for _, r := range records {
		if r.Effect != "" && r.Exit.State == StateExited {
			s.Records = append(s.Records, r)
		}
	}
	s.Records = s.Records[max(0, len(s.Records)-maxSnapshotRecords):]
	return s, nil
}

// prune deletes the oldest unpinned snapshots over the number that is kept.
func (m *Manager) prune(ctx context.Context, bucket, current string) error {
	if m.set.KeepSnapshots <= 0 {
		return nil
	}
	list, err := m.store.Manifests(ctx, bucket)
	if err != nil {
		return err
	}
	kept := 0
	for _, s := range list {
		if s.ID == current || s.Pinned {
			continue
		}
		if kept++; kept < m.set.KeepSnapshots {
			continue
		}
		if err := m.store.Delete(ctx, bucket, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// Snapshots lists those of a bucket, newest first, with the id of the current one.
func (m *Manager) Snapshots(ctx context.Context, bucket string) ([]Manifest, string, error) {
	head, err := m.store.Head(ctx, bucket)
	if err != nil {
		return nil, "", err
	}
	list, err := m.store.Manifests(ctx, bucket)
	return list, head.Snapshot, err
}

// DeleteSnapshot deletes one. The current or a pinned one only with force.
func (m *Manager) DeleteSnapshot(ctx context.Context, bucket, id string, force bool) error {
	s, err := m.store.Manifest(ctx, bucket, id)
	if errors.Is(err, errdefs.ErrNotFound) {
		return nil
	}
	if err != nil && !force {
		return err
	}
	_, err = m.update(ctx, bucket, func(h *Head) error {
		if !force && (h.Snapshot == id || s.Pinned) {
			return Errorf(errdefs.ErrFailedPrecondition, ReasonSnapshotPinned, "the snapshot is pinned, or the one that the next sandbox starts from; set force").With("snapshot", id)
		}
		if h.Snapshot == id {
			h.Snapshot = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.store.Delete(ctx, bucket, id)
}

// Restore makes a snapshot the one that the next sandbox starts from, and takes a live sandbox down without saving it. The snapshot is verified first.
func (m *Manager) Restore(ctx context.Context, bucket, id string, force bool) (Manifest, error) {
	s, err := m.store.Manifest(ctx, bucket, id)
	if err != nil {
		return s, err
	}
	if err := verifyArchive(ctx, m.store, s); err != nil {
		return s, err
	}
	if _, err := m.Destroy(ctx, bucket, "", 0, false, force); err != nil && errdefs.ReasonOf(err) != ReasonSandboxNotFound {
		return s, err
	}
	covered := map[string]bool{}
	for _, r := range s.Records {
		covered[r.Effect] = true
	}
	_, err = m.update(ctx, bucket, func(h *Head) error {
		old := h.Snapshot
		h.Snapshot = id
		// Effects of the abandoned line that this snapshot does not have are void.
		if old != "" && old != id {
			if was, err := m.store.Manifest(ctx, bucket, old); err == nil {
				for _, r := range was.Records {
					if !covered[r.Effect] {
						h.Lost = append(h.Lost, r)
					}
				}
			}
		}
		lost := h.Lost[:0:0]
		for _, r := range h.Lost {
			if !covered[r.Effect] {
				lost = append(lost, r)
			}
		}
		h.Lost = lost[max(0, len(lost)-maxLost):]
		return nil
	})
	return s, err
}
