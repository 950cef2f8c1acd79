package task

import (
	"context"
	"strconv"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Cursor is a place in the change log of one store.
type Cursor struct {
	Store string
	At    int64
}

// Seen is a task with the cursor after which its next changes come.
type Seen struct {
	Task   Task
	Cursor Cursor
}

// Get returns one task whole.
func (e *Engine) Get(ctx context.Context, v Viewer, id string) (Seen, error) {
	return view(ctx, e, func(tx ReadTx) (Seen, error) {
		t, err := seen(tx, v, id, WithInput|WithResult)
		if err != nil {
			return Seen{}, err
		}
		cursor, err := newest(tx)
		return Seen{Task: t, Cursor: cursor}, err
	})
}

// Many returns tasks with their results, in the order of the ids. One that the viewer does not see is TASK_NOT_FOUND.
func (e *Engine) Many(ctx context.Context, v Viewer, ids []string) ([]Task, error) {
	return view(ctx, e, func(tx ReadTx) ([]Task, error) {
		tasks := make([]Task, 0, len(ids))
		for _, id := range ids {
			t, err := seen(tx, v, id, WithResult)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, t)
		}
		return tasks, nil
	})
}

// Listed is one page.
type Listed struct {
	Tasks  []Task
	More   bool
	Cursor Cursor
}

// List returns a page of tasks that the viewer sees, newest first.
func (e *Engine) List(ctx context.Context, v Viewer, q Query) (Listed, error) {
	return view(ctx, e, func(tx ReadTx) (Listed, error) {
		for _, id := range []string{q.ParentID, q.RootID} {
			if id == "" {
				continue
			}
			if _, err := seen(tx, v, id, Bare); err != nil {
				return Listed{}, err
			}
		}
		limit := q.Limit
		q.Tenant, q.Owner, q.Limit = v.Tenant, v.Owner, limit+1
		tasks, err := tx.List(q)
		if err != nil {
			return Listed{}, err
		}
		cursor, err := newest(tx)
		return Listed{Tasks: tasks[:min(len(tasks), limit)], More: len(tasks) > limit, Cursor: cursor}, err
	})
}

func newest(tx ReadTx) (Cursor, error) {
	at, _, err := tx.ChangeBounds()
	return Cursor{Store: tx.StoreID(), At: at}, err
}

// Changed is a piece of the change log.
type Changed struct {
	Changes []Change
	// Cursor is where to go on; it may lie behind the last change that was of interest.
	Cursor Cursor
	// Complete says that there was nothing after Cursor.
	Complete bool
}

// Changes returns changes after a cursor that the viewer sees, at most limit. A cursor without store is that of now: nothing is returned but the cursor. Root selects the tree under a topmost task.
func (e *Engine) Changes(ctx context.Context, v Viewer, after Cursor, root string, limit int) (Changed, error) {
	return view(ctx, e, func(tx ReadTx) (Changed, error) {
		last, pruned, err := tx.ChangeBounds()
		if err != nil {
			return Changed{}, err
		}
		now := Cursor{Store: tx.StoreID(), At: last}
		switch {
		case after.Store == "":
			return Changed{Cursor: now, Complete: true}, nil
		case after.Store != now.Store || after.At < 0 || after.At > last:
			return Changed{}, Errorf(errdefs.ErrInvalidArgument, ReasonTokenInvalid, "the cursor is not of this store").With("field", "cursor")
		case after.At < pruned:
			return Changed{}, Errorf(errdefs.ErrOutOfRange, ReasonCursorExpired, "changes after this cursor were removed; list again").
				With("cursor", strconv.FormatInt(after.At, 10)).With("oldest", strconv.FormatInt(pruned, 10))
		}
		found, err := tx.Changes(v.Tenant, v.Owner, after.At, limit)
		if err != nil {
			return Changed{}, err
		}
		out := Changed{Cursor: now, Complete: len(found) < limit}
		if !out.Complete {
			out.Cursor.At = found[len(found)-1].Cursor
		}
		for _, c := range found {
			if root == "" || c.Task.RootID == root || c.Task.ID == root {
				out.Changes = append(out.Changes, c)
			}
		}
		return out, nil
	})
}

// CheckSeen is TASK_NOT_FOUND unless the viewer sees the task.
func (e *Engine) CheckSeen(ctx context.Context, v Viewer, id string) error {
	return e.store.View(ctx, func(tx ReadTx) error {
		_, err := seen(tx, v, id, Bare)
		return err
	})
}
