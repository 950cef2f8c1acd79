package local

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// intent is an update that has been decided on.
type intent struct {
	ID      int64
	Space   files.Space
	Effect  files.Effect
	Outcome []byte
	Steps   []step
	Changes []files.Change
}

// Update implements [files.Store].
func (s *Store) Update(ctx context.Context, space files.Space, effect files.Effect, f func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	l, release, err := s.acquire(ctx, space)
	if err != nil {
		return files.Updated{}, err
	}
	defer release()
	if l.broken {
		if err := s.recover(ctx, space); err != nil {
			return files.Updated{}, diskError(err)
		}
		l.broken = false
	}
	if done, found, err := s.index.Recorded(ctx, space, effect); err != nil || found {
		return done, err
	}
	p, err := s.newPlan(ctx, space)
	if err != nil {
		return files.Updated{}, err
	}
	outcome, err := run(ctx, p, f)
	if err != nil {
		p.giveBack()
		return files.Updated{}, err
	}
	in := intent{Space: space, Effect: effect, Outcome: outcome, Steps: p.steps, Changes: p.changes}
	// From here on the update is carried out, whatever becomes of the caller.
	ctx = context.WithoutCancel(ctx)
	if err := s.declare(ctx, &in); err != nil {
		p.giveBack()
		return files.Updated{}, err
	}
	done, begun, err := s.carryOut(ctx, in)
	if err == nil {
		p.discardUnused()
		return done, nil
	}
	if begun || s.abandon(ctx, in) != nil {
		l.broken = true
	}
	return files.Updated{}, diskError(err)
}

// abandon drops an intent of which nothing was, or can be, carried out.
func (s *Store) abandon(ctx context.Context, in intent) error {
	for _, st := range in.Steps {
		if st.Staged != "" {
			_ = os.Remove(filepath.Join(s.stage, st.Staged)) // what stays behind is cleared at the next start
		}
	}
	return s.index.Raw(ctx, func(ctx context.Context, q sqlstore.Querier) error {
		_, err := q.Exec(ctx, `DELETE FROM intents WHERE id = ?1`, in.ID)
		return err
	})
}

// hopeless says whether an error of the disk will be the same next time: people have put something in the way. Lack of space, or a disk that can't be written, passes.
func hopeless(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTEMPTY) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)
}

// run runs the function of an update; a panic is an error.
func run(ctx context.Context, p *plan, f func(context.Context, files.Tx) ([]byte, error)) (outcome []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("an update panicked: %v\n%s", r, debug.Stack())
		}
	}()
	if outcome, err = f(ctx, p); err == nil {
		err = ctx.Err()
	}
	return outcome, err
}

// onDiskToo says whether an intent changes the disk, and not only what the index knows.
func (in intent) onDiskToo() bool {
	for _, st := range in.Steps {
		if st.Op.onDisk() {
			return true
		}
	}
	return false
}

// declare makes an intent durable. One that does not change the disk needs none.
func (s *Store) declare(ctx context.Context, in *intent) error {
	if !in.onDiskToo() {
		return nil
	}
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(in); err != nil {
		return err
	}
	return s.index.Raw(ctx, func(ctx context.Context, q sqlstore.Querier) error {
		return q.Query(ctx, `INSERT INTO intents (body) VALUES (?1) RETURNING id`, func(row sqlstore.Row) error { return row.Scan(&in.ID) }, body.Bytes())
	})
}

// carryOut changes the disk and commits the outcome. begun says whether some of it was done when it failed.
func (s *Store) carryOut(ctx context.Context, in intent) (done files.Updated, begun bool, err error) {
	signatures := make([]string, len(in.Steps))
	if in.onDiskToo() {
		root, err := s.root(in.Space, true)
		if err != nil {
			return files.Updated{}, false, err
		}
		defer root.Close()
		a := s.newApplier(root)
		for i, st := range in.Steps {
			if err = a.apply(st); err != nil {
				return files.Updated{}, begun, fmt.Errorf("step %d of intent %d: %w", i, in.ID, err)
			}
			begun = true
		}
		if err := a.sync(); err != nil {
			return files.Updated{}, begun, err
		}
		for i, st := range in.Steps {
			if signatures[i], err = a.signature(st); err != nil {
				return files.Updated{}, begun, err
			}
		}
	}
	done, err = s.index.Update(ctx, in.Space, in.Effect, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		index := tx.(sqlstore.IndexTx)
		for i, st := range in.Steps {
			if err := record(ctx, index, st, signatures[i]); err != nil {
				return nil, err
			}
		}
		for _, c := range in.Changes {
			if err := tx.Log(ctx, c); err != nil {
				return nil, err
			}
		}
		return in.Outcome, index.Exec(ctx, `DELETE FROM intents WHERE id = ?1`, in.ID)
	})
	if err != nil {
		return files.Updated{}, begun, err
	}
	for _, st := range in.Steps {
		if st.Op == opAppend {
			_ = os.Remove(filepath.Join(s.stage, st.Staged)) // what stays behind is cleared at the next start
		}
	}
	return done, begun, nil
}

// record tells the index what a step has done.
func record(ctx context.Context, index sqlstore.IndexTx, st step, signature string) error {
	switch st.Op {
	case opSetWhiteout:
		return index.SetWhiteout(ctx, st.Path)
	case opClearWhiteout:
		return index.ClearWhiteout(ctx, st.Path)
	case opRemove:
		return index.Unrecord(ctx, st.Path)
	case opNotice:
		return index.Notice(ctx, st.Node, detail{Signature: st.Node.Ref, Hash: st.Hash, Path: st.Path.String()}.encode(), st.Content)
	case opNothing:
		return nil
	}
	d := detail{Signature: signature, Hash: st.Hash, Path: st.Node.Path.String()}.encode()
	switch st.Op {
	case opAppend:
		return index.Extend(ctx, st.Node, d)
	case opRename:
		return index.Move(ctx, st.From, st.Node, d)
	}
	return index.Record(ctx, st.Node, d)
}

// recover carries out the intents that were left, those of one space or, with "", all. It is safe to repeat.
func (s *Store) recover(ctx context.Context, space files.Space) error {
	var left []intent
	err := s.index.Raw(ctx, func(ctx context.Context, q sqlstore.Querier) error {
		left = nil
		return q.Query(ctx, `SELECT id, body FROM intents ORDER BY id`, func(row sqlstore.Row) error {
			var body []byte
			var id int64
			if err := row.Scan(&id, &body); err != nil {
				return err
			}
			in := intent{}
			if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&in); err != nil {
				return fmt.Errorf("intent %d can't be read: %w", id, err)
			}
			in.ID = id
			if space == "" || in.Space == space {
				left = append(left, in)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, in := range left {
		_, _, err := s.carryOut(ctx, in)
		if err != nil && hopeless(err) {
			// The outcome is unknown, and it is not recorded: what the disk has now counts as changed outside.
			err = s.abandon(ctx, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
