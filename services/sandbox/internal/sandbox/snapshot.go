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
	return m.save(ctx, l, saveOptions{label: label, pin: pin})
}

// saveOptions say why a snapshot is taken.
type saveOptions struct {
	label          string
	pin, automatic bool
}

// moment is what a sandbox was when it stood still.
type moment struct {
	at      time.Time
	changes int64
	running bool
	frozen  time.Duration
}

// save archives, verifies, and only then moves the head, if this sandbox is still the bucket's newest generation. Commands wait only while the workspace is read.
func (m *Manager) save(ctx context.Context, l *Live, o saveOptions) (s Manifest, frozen time.Duration, err error) {
	l.saves.Lock()
	defer l.saves.Unlock()
	if l.gone {
		return s, 0, Errorf(errdefs.ErrUnavailable, ReasonSandboxLost, "the sandbox was destroyed")
	}
	spec := l.Instance.Spec()
	m.mu.Lock()
	parent, token := l.parent, l.next-1
	m.mu.Unlock()
	s, still, err := m.freeze(ctx, l)
	frozen = still.frozen
	if err != nil {
		return Manifest{}, frozen, err
	}
	s.Parent, s.Generation, s.Token, s.Created, s.Label, s.Pinned, s.Automatic = parent, spec.Generation, token, still.at, o.label, o.pin, o.automatic
	if err := verifyArchive(ctx, m.store, s); err != nil {
		return Manifest{}, frozen, err
	}
	if s.ID, err = m.store.PutManifest(ctx, s); err != nil {
		return Manifest{}, frozen, err
	}
	if err := m.commit(ctx, l, s.ID, still); err != nil {
		return Manifest{}, frozen, errors.Join(err, m.store.Delete(context.WithoutCancel(ctx), spec.Bucket, s.ID))
	}
	return s, frozen, m.prune(ctx, spec.Bucket, s.ID)
}

// freeze archives a sandbox while it stands still.
func (m *Manager) freeze(ctx context.Context, l *Live) (s Manifest, still moment, err error) {
	l.files.Lock()
	defer l.files.Unlock()
	start := time.Now()
	m.mu.Lock()
	paused := l.state == LivePaused
	still.at, still.changes = m.now(), l.changes
	m.mu.Unlock()
	if err := l.Instance.Freeze(ctx); err != nil {
		return s, still, err
	}
	running, err := l.Instance.Alive(ctx)
	still.running = running > 0
	if err == nil {
		s, err = m.capture(ctx, l)
	}
	if !paused {
		err = errors.Join(err, l.Instance.Thaw(context.WithoutCancel(ctx)))
	}
	still.frozen = time.Since(start)
	return s, still, err
}

// commit makes a snapshot the current one, and notes whether there are changes since.
func (m *Manager) commit(ctx context.Context, l *Live, id string, still moment) error {
	l.marking.Lock()
	defer l.marking.Unlock()
	m.mu.Lock()
	dirty := still.running || l.changes != still.changes
	m.mu.Unlock()
	spec := l.Instance.Spec()
	_, err := m.update(ctx, spec.Bucket, func(h *Head) error {
		if h.Generation != spec.Generation {
			return Errorf(errdefs.ErrAborted, ReasonFenced, "the bucket has a newer sandbox, so this one may not save any more")
		}
		var left *Unsaved
		if dirty {
			left = &Unsaved{Generation: spec.Generation, Since: still.at}
		}
		h.saved(id, left)
		return nil
	})
	if err != nil {
		return err
	}
	if l.marked != dirty {
		// At worst the supervisor keeps the sandbox longer than it must.
		if err := l.Instance.SetUnsaved(dirty); err != nil {
			m.log.Warn("the supervisor was not told that a sandbox is saved", "sandbox", spec.ID, "error", err)
		}
	}
	l.marked = dirty
	m.mu.Lock()
	defer m.mu.Unlock()
	l.parent, l.lastSave, l.dirty = id, still.at, dirty
	return nil
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

// prune deletes the oldest unpinned snapshots over the number that is kept. Those that were asked for are counted apart: they would not last beside those that are taken after each use.
func (m *Manager) prune(ctx context.Context, bucket, current string) error {
	if m.set.KeepSnapshots <= 0 {
		return nil
	}
	list, err := m.store.Manifests(ctx, bucket)
	if err != nil {
		return err
	}
	kept := map[bool]int{}
	for _, s := range list {
		if s.ID == current || s.Pinned {
			continue
		}
		if kept[s.Automatic]++; kept[s.Automatic] < m.set.KeepSnapshots {
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
		// Whoever goes back knows that what came after is gone.
		h.Snapshot, h.Unsaved, h.Loss = id, nil, nil
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
