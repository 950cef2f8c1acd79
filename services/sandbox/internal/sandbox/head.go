package sandbox

import (
	"context"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// reserve changes the head of a bucket and reserves a block of fencing tokens.
func (m *Manager) reserve(ctx context.Context, bucket string, change func(*Head)) (Head, error) {
	return m.update(ctx, bucket, func(h *Head) error {
		h.Token += tokenBlock
		change(h)
		return nil
	})
}

// update changes the head by compare and set.
func (m *Manager) update(ctx context.Context, bucket string, change func(*Head) error) (Head, error) {
	for try := 0; ; try++ {
		old, err := m.store.Head(ctx, bucket)
		if err != nil {
			return Head{}, err
		}
		head := old
		if err := change(&head); err != nil {
			return Head{}, err
		}
		head.Version++
		err = m.store.SetHead(ctx, bucket, old, head)
		if err == nil {
			return head, nil
		}
		if errdefs.ReasonOf(err) != ReasonFenced || try >= 10 {
			return Head{}, err
		}
	}
}

// rememberLost records the effects of a generation that is gone, other than those that the current snapshot covers, and that its unsaved changes are lost; unless they
// were given up on purpose.
func (m *Manager) rememberLost(ctx context.Context, spec Spec, records []Record, givenUp bool) error {
	if spec.Bucket == "" {
		return nil
	}
	_, err := m.update(ctx, spec.Bucket, func(h *Head) error {
		covered := map[string]bool{}
		if h.Snapshot != "" {
			if s, err := m.store.Manifest(ctx, spec.Bucket, h.Snapshot); err == nil {
				for _, r := range s.Records {
					covered[r.Effect] = true
				}
			}
		}
		h.Generation = max(h.Generation, spec.Generation)
		if h.Unsaved != nil && h.Unsaved.Generation <= spec.Generation {
			if givenUp {
				h.Unsaved = nil
			}
			h.lose()
		}
		for _, r := range h.Lost {
			covered[r.Effect] = true
		}
		for _, r := range records {
			if r.Effect != "" && !covered[r.Effect] {
				if r.Exit.State == StateRunning {
					r.Exit.State = StateLost
				}
				h.Lost = append(h.Lost, r)
			}
		}
		h.Lost = h.Lost[max(0, len(h.Lost)-maxLost):]
		return nil
	})
	return err
}
