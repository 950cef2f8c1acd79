package composite

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// maxRuns bounds how often the function of an update is begun anew because it writes to another store than it did the time before.
const maxRuns = 8

var (
	// errElsewhere ends a run of the default store's update: the outcome is that of another store, or there is to be another run.
	errElsewhere = errors.New("the outcome is elsewhere")
	// errNotRecorded ends an update that was only to look for an effect.
	errNotRecorded = errors.New("the effect is not recorded")
)

// update is one call of Update.
type update struct {
	store  *Store
	space  files.Space
	effect files.Effect
	f      func(context.Context, files.Tx) ([]byte, error)

	others cursors // of the stores that it does not write
	// written is the store that has committed, or in which the effect was found, with its outcome; 0 for none but the default.
	written int
	done    files.Updated
	// target is the store to run f in: the default one until a run has shown that it writes to another.
	target int
	// late is content to be staged in the store first before the next run.
	late *content
	// loose is what was staged within runs.
	loose []files.Staged
}

// Update implements [files.Store].
func (s *Store) Update(ctx context.Context, space files.Space, effect files.Effect, f func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	u := &update{store: s, space: space, effect: effect, f: f}
	defer u.discard()
	for range maxRuns {
		u.late = nil
		done, err := s.stores[0].Update(ctx, space, effect, u.run)
		switch {
		case u.written != 0:
			// That store has committed. What became of the default store's update, which changes nothing, does not matter.
			return u.outcome(u.written, u.done), nil
		case u.late != nil:
			if err := u.late.stageBefore(ctx, u.target); err != nil {
				return files.Updated{}, err
			}
		case err == nil:
			return u.outcome(0, done), nil
		case !errors.Is(err, errElsewhere):
			return files.Updated{}, err
		}
	}
	return files.Updated{}, errdefs.New(errdefs.ErrAborted, fsops.Domain, fsops.ReasonRevisionConflict, "the update writes to another store each time it is tried")
}

func (u *update) discard() {
	for _, staged := range u.loose {
		staged.Discard()
	}
}

// run is the function of the default store's update. It holds the space while the update of another store runs within it.
func (u *update) run(ctx context.Context, tx files.Tx) ([]byte, error) {
	if u.written != 0 {
		return nil, errElsewhere // the default store asks for another run
	}
	if err := u.recorded(ctx); err != nil {
		return nil, err
	}
	var err error
	if u.others, err = u.store.heads(ctx, u.space); err != nil {
		return nil, err
	}
	for range maxRuns {
		switch {
		case u.late != nil:
			return nil, errElsewhere
		case u.target == 0:
			x := u.newTx(ctx, tx, 0)
			if outcome, err := u.call(x); !x.again {
				return u.record(0, outcome), err
			}
		default:
			if again, err := u.runIn(ctx, tx, u.target); err != nil || !again {
				return nil, err
			}
		}
	}
	return nil, errElsewhere
}

// runIn runs the update in another store than the default. again says that it belongs to yet another one.
func (u *update) runIn(ctx context.Context, tx files.Tx, i int) (again bool, err error) {
	done, err := u.store.stores[i].Update(ctx, u.space, u.effect, func(within context.Context, inner files.Tx) ([]byte, error) {
		x := u.newTx(ctx, tx, i)
		x.open[i], x.contexts[i], x.base = inner, within, within
		outcome, err := u.call(x)
		if again = x.again; again {
			return nil, errElsewhere
		}
		return u.record(i, outcome), err
	})
	if err == nil {
		u.written, u.done, err = i, done, errElsewhere
		return false, err
	}
	if again {
		return true, nil
	}
	return false, err
}

// call runs the function. A run that is to be begun anew counts for nothing, whatever the function made of it.
func (u *update) call(x *tx) ([]byte, error) {
	outcome, err := u.f(context.WithValue(x.base, txKey{}, x), x)
	if x.across != nil {
		err = x.across
	}
	return outcome, err
}

// recorded looks for the effect in the other stores; errElsewhere when it is there.
func (u *update) recorded(ctx context.Context) error {
	if u.effect.ID == "" {
		return nil
	}
	for _, i := range u.store.holding(u.space)[1:] {
		done, found, err := lookUp(ctx, u.store.stores[i], u.space, u.effect)
		if err != nil {
			return err
		}
		if found {
			u.written, u.done = i, done
			return errElsewhere
		}
	}
	return nil
}

// lookUp finds the record of an effect in a store.
func lookUp(ctx context.Context, store files.Store, space files.Space, effect files.Effect) (files.Updated, bool, error) {
	if r, ok := store.(interface {
		Recorded(context.Context, files.Space, files.Effect) (files.Updated, bool, error)
	}); ok {
		return r.Recorded(ctx, space, effect)
	}
	done, err := store.Update(ctx, space, effect, func(context.Context, files.Tx) ([]byte, error) { return nil, errNotRecorded })
	if errors.Is(err, errNotRecorded) {
		return files.Updated{}, false, nil
	}
	return done, err == nil, err
}

// trailMark ends a recorded outcome behind which the cursors of the other stores are kept. Whoever reads the outcome without knowing of it does not reach it: outcomes end by
// themselves.
const trailMark = "\x00gantry:others"

// record is an outcome as it is recorded: with the cursors of the stores that the update does not write.
func (u *update) record(written int, outcome []byte) []byte {
	if u.effect.ID == "" {
		return outcome
	}
	rest := append(cursors{}, u.others...)
	rest[written] = files.Cursor{}
	c := u.store.join(rest)
	if c.Seq == 0 {
		return outcome
	}
	text := c.String()
	outcome = append(append([]byte{}, outcome...), text...)
	outcome = binary.BigEndian.AppendUint16(outcome, uint16(len(text)))
	return append(outcome, trailMark...)
}

// unrecord is the reverse of record. Other stores than those recorded begin at their start.
func (s *Store) unrecord(record []byte) ([]byte, cursors) {
	none := make(cursors, len(s.stores))
	body, ok := strings.CutSuffix(string(record), trailMark)
	if !ok || len(body) < 2 {
		return record, none
	}
	size := int(binary.BigEndian.Uint16([]byte(body[len(body)-2:])))
	if body = body[:len(body)-2]; size > len(body) {
		return record, none
	}
	at := len(body) - size
	c, err := files.ParseCursor(body[at:])
	if err != nil {
		return record, none
	}
	all, err := s.split(c)
	if err != nil {
		return record[:at], none
	}
	return record[:at], all
}

// outcome is what the caller gets of what a store has committed or recorded.
func (u *update) outcome(written int, done files.Updated) files.Updated {
	var all cursors
	done.Outcome, all = u.store.unrecord(done.Outcome)
	if !done.Repeated {
		all = append(cursors{}, u.others...)
	}
	all[written] = done.Cursor
	done.Cursor = u.store.join(all)
	return done
}
