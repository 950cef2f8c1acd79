package manifest

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Forget implements [files.Store]. The last entry of the space stays, and says that there is nothing: a late writer of another replica finds that its number is taken. When
// Forget fails after that, the space is empty already, and another Forget removes what is left of it.
func (s *Store) Forget(ctx context.Context, space files.Space) (int64, error) {
	l, release, err := s.hold(space)
	if err != nil {
		return 0, err
	}
	defer release()
	var gone int64
	none := false
	_, err = l.update(ctx, true, func(p *plan) (files.Updated, error) {
		gone = p.state.usage.Files
		// Nothing was ever here, or nothing since it was forgotten.
		if none = p.batch.base.generation == "" || p.batch.base.blank(); none {
			return files.Updated{}, ctx.Err()
		}
		return files.Updated{}, p.do(op{kind: opForget, name: newGeneration()})
	})
	if err != nil {
		return 0, err
	}
	st, err := l.look(ctx)
	if err != nil || st.base == 0 {
		return gone, err
	}
	if !none {
		s.changed(space)
	}
	return gone, l.erase(ctx, st)
}

// blank says whether nothing has happened since the space was forgotten.
func (s *state) blank() bool {
	return s.base > 0 && s.base == s.at.Number-1 && s.nodes.Len() == 0
}

// erase removes what the space held before it was forgotten.
func (l *live) erase(ctx context.Context, st *state) error {
	d := l.store.driver
	if err := d.PutCheckpoint(ctx, l.space, st.at.Number, st.encode()); err != nil {
		return err
	}
	if err := d.Erase(ctx, l.space, st.base, st.at.Number); err != nil {
		return err
	}
	current := tagOf(st.generation)
	return d.Sweep(ctx, l.space, time.Time{}, func(name string) bool {
		t, ok := tagOfName(name)
		return ok && t != current
	})
}
