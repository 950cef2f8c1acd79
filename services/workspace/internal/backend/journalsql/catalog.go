package journalsql

import (
	"context"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// List implements [journal.Catalog].
func (s *Store) List(ctx context.Context, u journal.User, size int, token string) ([]journal.Head, string, error) {
	if err := journal.ValidateUser(u); err != nil {
		return nil, "", err
	}
	if err := journal.ValidatePage(size, journal.MaxList); err != nil {
		return nil, "", err
	}
	before := int64(never)
	if token != "" {
		var err error
		if before, err = journal.ParseToken("list", u, token); err != nil {
			return nil, "", err
		}
	}
	if err := s.settle(ctx, u); err != nil {
		return nil, "", err
	}
	next := ""
	heads, err := reading(ctx, s, func(v *View) ([]journal.Head, error) {
		at := "t." + v.place()
		var rows []*thread
		if err := v.threads(&rows, v.rowsOf()+"WHERE t.user_key = ? AND "+at+" > 0 AND "+at+" < ? ORDER BY "+at+" DESC LIMIT ?", u.Key(), before, size+1); err != nil {
			return nil, err
		}
		if len(rows) > size {
			rows = rows[:size]
			next = journal.Token("list", u, rows[size-1].place)
		}
		heads := make([]journal.Head, len(rows))
		for i, row := range rows {
			var err error
			if heads[i], err = row.head(v.Now); err != nil {
				return nil, err
			}
		}
		return heads, nil
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// settle gives the changes of the user places, in a database that does not at once.
func (s *Store) settle(ctx context.Context, u journal.User) error {
	if db, ok := s.db.(Settler); ok {
		return db.Settle(ctx, u.Key())
	}
	return nil
}

func (s *View) threads(into *[]*thread, query string, args ...any) error {
	return s.Each(query, args, func(scan func(...any) error) (bool, error) {
		row := new(thread)
		*into = append(*into, row)
		return true, scan(row.fields()...)
	})
}

// grave is a deleted thread.
type grave struct {
	key   string
	place int64
}

// Changes implements [journal.Catalog].
func (s *Store) Changes(ctx context.Context, u journal.User, cursor string, size int) (journal.Changes, error) {
	var none journal.Changes
	if err := journal.ValidateUser(u); err != nil {
		return none, err
	}
	if err := journal.ValidatePage(size, journal.MaxChanges); err != nil {
		return none, err
	}
	after := int64(0)
	if cursor != "" {
		var err error
		if after, err = journal.ParseToken("changes", u, cursor); err != nil {
			return none, err
		}
	}
	if err := s.settle(ctx, u); err != nil {
		return none, err
	}
	return reading(ctx, s, func(v *View) (journal.Changes, error) {
		var (
			rows     []*thread
			graves   []grave
			newest   int64
			lastGone int64
		)
		at := v.place()
		if _, err := v.Get("SELECT coalesce((SELECT max("+at+") FROM threads WHERE user_key = ?1), 0), coalesce((SELECT max("+at+") FROM graves WHERE user_key = ?1), 0)",
			[]any{u.Key()}, &newest, &lastGone); err != nil {
			return none, err
		}
		if after > max(newest, lastGone) {
			// The store is an older copy than the one that gave the cursor: what the caller knows is not in it.
			return none, journal.TokenInvalid()
		}
		if err := v.threads(&rows, v.rowsOf()+"WHERE t.user_key = ? AND t."+at+" > ? ORDER BY t."+at+" LIMIT ?", u.Key(), after, size+1); err != nil {
			return none, err
		}
		err := v.Each("SELECT key, "+at+" FROM graves WHERE user_key = ? AND "+at+" > ? ORDER BY "+at+" LIMIT ?", []any{u.Key(), after, size + 1},
			func(scan func(...any) error) (bool, error) {
				var g grave
				err := scan(&g.key, &g.place)
				graves = append(graves, g)
				return true, err
			})
		if err != nil {
			return none, err
		}
		return v.merge(u, rows, graves, after, size)
	})
}

// merge joins changed and deleted threads in the order of changes, up to a page.
func (v *View) merge(u journal.User, rows []*thread, graves []grave, after int64, size int) (journal.Changes, error) {
	var out journal.Changes
	for len(rows)+len(graves) > 0 {
		if len(out.Heads)+len(out.Deleted) == size {
			out.More = true
			break
		}
		if len(graves) == 0 || (len(rows) > 0 && rows[0].place < graves[0].place) {
			head, err := rows[0].head(v.Now)
			if err != nil {
				return journal.Changes{}, err
			}
			out.Heads, after, rows = append(out.Heads, head), rows[0].place, rows[1:]
			continue
		}
		t, err := identity.ParseThread(graves[0].key)
		if err != nil {
			return journal.Changes{}, journal.Damaged(0, "the key of a deleted thread")
		}
		out.Deleted, after, graves = append(out.Deleted, t), graves[0].place, graves[1:]
	}
	out.Cursor = journal.Token("changes", u, after)
	return out, nil
}
