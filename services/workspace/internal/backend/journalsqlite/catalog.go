package journalsqlite

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
	rows, err := s.rows(ctx, threadColumns+"WHERE t.user_key = ? AND t.change < ? ORDER BY t.change DESC LIMIT ?", u.Key(), before, size+1)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > size {
		rows = rows[:size]
		next = journal.Token("list", u, rows[size-1].change)
	}
	heads, err := s.heads(rows)
	return heads, next, err
}

// rows reads threads in one state of the store.
func (s *Store) rows(ctx context.Context, query string, args ...any) ([]*thread, error) {
	var rows []*thread
	err := s.read(ctx, func(r *session) error { return r.threads(&rows, query, args...) })
	return rows, err
}

func (s *session) threads(into *[]*thread, query string, args ...any) error {
	return s.each(query, args, func(scan func(...any) error) (bool, error) {
		row := new(thread)
		*into = append(*into, row)
		return true, scan(row.fields()...)
	})
}

func (s *Store) heads(rows []*thread) ([]journal.Head, error) {
	now := s.writer.now()
	heads := make([]journal.Head, len(rows))
	for i, row := range rows {
		var err error
		if heads[i], err = row.head(now); err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// grave is a deleted thread.
type grave struct {
	key    string
	change int64
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
	var (
		rows   []*thread
		graves []grave
		newest int64
	)
	err := s.read(ctx, func(r *session) error {
		if _, err := r.get(`SELECT max(coalesce((SELECT max(change) FROM threads WHERE user_key = ?1), 0),
 coalesce((SELECT max(change) FROM graves WHERE user_key = ?1), 0))`, []any{u.Key()}, &newest); err != nil {
			return err
		}
		if err := r.threads(&rows, threadColumns+"WHERE t.user_key = ? AND t.change > ? ORDER BY t.change LIMIT ?", u.Key(), after, size+1); err != nil {
			return err
		}
		return r.each("SELECT key, change FROM graves WHERE user_key = ? AND change > ? ORDER BY change LIMIT ?", []any{u.Key(), after, size + 1},
			func(scan func(...any) error) (bool, error) {
				var g grave
				err := scan(&g.key, &g.change)
				graves = append(graves, g)
				return true, err
			})
	})
	if err != nil {
		return none, err
	}
	if after > newest {
		// The store is an older copy than the one that gave the cursor: what the caller knows is not in it.
		return none, journal.TokenInvalid()
	}
	return s.merge(u, rows, graves, after, size)
}

// merge joins changed and deleted threads in the order of changes, up to a page.
func (s *Store) merge(u journal.User, rows []*thread, graves []grave, after int64, size int) (journal.Changes, error) {
	var out journal.Changes
	now := s.writer.now()
	for len(rows)+len(graves) > 0 {
		if len(out.Heads)+len(out.Deleted) == size {
			out.More = true
			break
		}
		if len(graves) == 0 || (len(rows) > 0 && rows[0].change < graves[0].change) {
			head, err := rows[0].head(now)
			if err != nil {
				return journal.Changes{}, err
			}
			out.Heads, after, rows = append(out.Heads, head), rows[0].change, rows[1:]
			continue
		}
		t, err := identity.ParseThread(graves[0].key)
		if err != nil {
			return journal.Changes{}, journal.Damaged(0, "the key of a deleted thread")
		}
		out.Deleted, after, graves = append(out.Deleted, t), graves[0].change, graves[1:]
	}
	out.Cursor = journal.Token("changes", u, after)
	return out, nil
}
