package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Unsaved says that a generation has changes which no snapshot has.
type Unsaved struct {
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"`
}

// Loss says that a generation ended with unsaved changes.
type Loss struct {
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"`
	// Told: a call was refused because of it.
	Told bool `json:"told,omitempty"`
	// Past: a snapshot was taken since, so the sandbox that starts from it has lost nothing by itself.
	Past bool `json:"past,omitempty"`
}

// lose turns the unsaved changes of a generation that is gone into a loss. One loss after the other, with no snapshot in between, is one that began with the first.
func (h *Head) lose() {
	if h.Unsaved == nil {
		return
	}
	l := Loss{Generation: h.Unsaved.Generation, Since: h.Unsaved.Since}
	if h.Loss != nil && !h.Loss.Past && h.Loss.Since.Before(l.Since) {
		l.Since = h.Loss.Since
	}
	h.Loss, h.Unsaved = &l, nil
}

// saved notes that a snapshot was taken. left is what was changed since, if anything was.
func (h *Head) saved(id string, left *Unsaved) {
	h.Snapshot, h.Unsaved = id, left
	switch {
	case h.Loss == nil:
	case h.Loss.Told:
		h.Loss = nil
	default:
		l := *h.Loss
		l.Past = true
		h.Loss = &l
	}
}

// told notes that a caller knows about the loss.
func (h *Head) told() {
	if h.Loss == nil {
		return
	}
	l := *h.Loss
	l.Told = true
	h.Loss = &l
	if l.Past {
		h.Loss = nil
	}
}

// untold says that there is a loss that nobody was told about.
func (h Head) untold() bool { return h.Loss != nil && !h.Loss.Told }

// lostSince is from when on changes are missing in what the head's snapshot gives. Zero: nothing is missing.
func (h Head) lostSince() time.Time {
	if h.Loss == nil || h.Loss.Past {
		return time.Time{}
	}
	return h.Loss.Since
}

// change notes that a call is about to change what is inside. The first change after a save is noted in the head before it is made: then its loss is known
// however the sandbox ends. The caller holds l.files for reading.
func (m *Manager) change(ctx context.Context, l *Live) error {
	l.marking.Lock()
	defer l.marking.Unlock()
	m.mu.Lock()
	l.dirty, l.lastChange = true, m.now()
	l.changes++
	m.mu.Unlock()
	if l.marked || !l.Caps.Snapshots {
		return nil
	}
	spec := l.Instance.Spec()
	_, err := m.update(ctx, spec.Bucket, func(h *Head) error {
		if h.Generation != spec.Generation {
			return Errorf(errdefs.ErrAborted, ReasonFenced, "the bucket has a newer sandbox, so this one may not be changed any more")
		}
		h.Unsaved = &Unsaved{Generation: spec.Generation, Since: m.now()}
		return nil
	})
	if err != nil {
		return err
	}
	l.marked = true
	return l.Instance.SetUnsaved(true)
}

// unmark forgets that there are unsaved changes.
func (m *Manager) unmark(ctx context.Context, l *Live) error {
	l.marking.Lock()
	defer l.marking.Unlock()
	if !l.marked {
		return nil
	}
	spec := l.Instance.Spec()
	_, err := m.update(ctx, spec.Bucket, func(h *Head) error {
		if h.Generation == spec.Generation {
			h.Unsaved = nil
		}
		return nil
	})
	l.marked = err != nil
	return err
}

// tell refuses a call once when unsaved changes of the bucket are lost. The bucket has no sandbox, and the caller keeps others from making one.
func (m *Manager) tell(ctx context.Context, bucket string, want Want) error {
	if !want.Tell {
		return nil
	}
	head, err := m.store.Head(ctx, bucket)
	if err != nil || head.Unsaved == nil && !head.untold() {
		return err
	}
	if known, err := m.known(ctx, bucket, want.Effect); known || err != nil {
		return err
	}
	return m.refuse(ctx, bucket, true)
}

// tellLive is tell for a call that holds a sandbox which somebody else has started since the loss.
func (m *Manager) tellLive(ctx context.Context, l *Live, want Want) error {
	bucket := l.Instance.Spec().Bucket
	m.mu.Lock()
	untold := l.untold
	m.mu.Unlock()
	if !untold || !want.Tell {
		return nil
	}
	if known, err := m.known(ctx, bucket, want.Effect); known || err != nil {
		return err
	}
	m.mu.Lock()
	untold, l.untold = l.untold, false
	m.mu.Unlock()
	if !untold {
		return nil // another call was faster
	}
	err := m.refuse(ctx, bucket, false)
	if errdefs.ReasonOf(err) != ReasonStateLost {
		m.mu.Lock()
		l.untold = true
		m.mu.Unlock()
	}
	return err
}

// known says whether an effect id has an outcome already: then that is the answer, not what was lost besides.
func (m *Manager) known(ctx context.Context, bucket, effect string) (bool, error) {
	if effect == "" {
		return false, nil
	}
	_, _, err := m.Lookup(ctx, bucket, effect)
	if errdefs.ReasonOf(err) == ReasonExecNotFound {
		return false, nil
	}
	return err == nil, err
}

// refuse makes the error of a loss, and notes that it was given. gone says that no sandbox lives, so unsaved changes are lost.
func (m *Manager) refuse(ctx context.Context, bucket string, gone bool) error {
	var loss Loss
	head, err := m.update(ctx, bucket, func(h *Head) error {
		if gone {
			h.lose()
		}
		if h.Loss == nil {
			return errors.New("the head knows of no loss")
		}
		loss = *h.Loss
		h.told()
		return nil
	})
	if err != nil {
		return err
	}
	return lossError(loss, head.Snapshot, m.taken(ctx, bucket, head.Snapshot))
}

// taken is when a snapshot was taken. Zero: that cannot be read.
func (m *Manager) taken(ctx context.Context, bucket, id string) time.Time {
	if id == "" {
		return time.Time{}
	}
	s, err := m.store.Manifest(ctx, bucket, id)
	if err != nil {
		return time.Time{}
	}
	return s.Created
}

func lossError(l Loss, snapshot string, taken time.Time) error {
	rest := "with an empty workspace, since no snapshot had been taken"
	if snapshot != "" {
		rest = "with the files of the last snapshot"
	}
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if !taken.IsZero() {
		rest += ", of " + stamp(taken)
	}
	e := Errorf(errdefs.ErrFailedPrecondition, ReasonStateLost,
		"the sandbox died before its latest changes were saved: what commands and file calls changed in it since %s is lost. This call has done nothing; repeating it goes on %s",
		stamp(l.Since), rest).
		With("since", stamp(l.Since)).With("generation", fmt.Sprint(l.Generation)).With("restored_snapshot_id", snapshot)
	if !taken.IsZero() {
		e = e.With("snapshot_time", stamp(taken))
	}
	return e
}
