package storetest_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

// keeper is a store whose history is broken in one way.
type keeper struct {
	files.Store
	own   func(space files.Space, own files.Own) files.Own
	space func(files.Space) files.Space // for the history alone
}

func (k keeper) Space(s files.Space) files.Own {
	own := k.Store.Space(s)
	if k.space != nil {
		own = elsewhere{own, k.Store.Space(k.space(s))}
	}
	if k.own != nil {
		own = k.own(s, own)
	}
	return own
}

// elsewhere takes the history of another space.
type elsewhere struct {
	files.Own
	history files.Own
}

func (e elsewhere) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	return e.history.Revisions(ctx, p, after, limit)
}

func (e elsewhere) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	return e.history.Revision(ctx, p, revision)
}

// altered changes what is told of the history.
type altered struct {
	files.Own
	list func([]files.Node) []files.Node
	one  func(files.Node) files.Node
}

func (a altered) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	nodes, more, err := a.Own.Revisions(ctx, p, after, limit)
	if a.list != nil {
		nodes = a.list(nodes)
	}
	return nodes, more, err
}

func (a altered) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	n, err := a.Own.Revision(ctx, p, revision)
	if a.one != nil {
		n = a.one(n)
	}
	return n, err
}

// growing gives a previous revision the content that came after it.
type growing struct{ files.Own }

func (g growing) Open(ctx context.Context, n files.Node) (files.Content, error) {
	if now, err := g.Own.Get(ctx, n.Path); err == nil && !n.Replaced.IsZero() && now[0].Kind == files.KindFile {
		n = now[0]
	}
	return g.Own.Open(ctx, n)
}

func cutOff(count int) func([]files.Node) []files.Node {
	return func(nodes []files.Node) []files.Node { return nodes[:min(count, len(nodes))] }
}

// The suite of the history fails for a store that breaks a promise about it.
func TestHistorySuiteNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once for each fault")
	}
	listing := func(list func([]files.Node) []files.Node) func(files.Store) files.Store {
		return func(s files.Store) files.Store {
			return keeper{Store: s, own: func(_ files.Space, own files.Own) files.Own { return altered{Own: own, list: list} }}
		}
	}
	for name, broken := range map[string]struct {
		store  func(files.Store) files.Store
		policy func(files.History) files.History
	}{
		"keeps nothing":       {policy: func(files.History) files.History { return files.History{} }},
		"keeps for ever":      {policy: func(h files.History) files.History { h.Age = 0; return h }},
		"keeps too many":      {policy: func(h files.History) files.History { h.Count *= 10; return h }},
		"prunes too early":    {policy: func(h files.History) files.History { h.Count = min(h.Count, 4); return h }},
		"ages too early":      {policy: func(h files.History) files.History { h.Age /= 2; return h }},
		"ignores the size":    {policy: func(h files.History) files.History { h.MaxFileBytes = 0; return h }},
		"forgets all but one": {store: listing(cutOff(1))},
		"oldest first": {store: listing(func(nodes []files.Node) []files.Node {
			for i, j := 0, len(nodes)-1; i < j; i, j = i+1, j-1 {
				nodes[i], nodes[j] = nodes[j], nodes[i]
			}
			return nodes
		})},
		"does not tell removals": {store: listing(func(nodes []files.Node) []files.Node {
			for i := range nodes {
				nodes[i].Removed = false
			}
			return nodes
		})},
		"finds no revision by its name": {store: func(s files.Store) files.Store {
			return keeper{Store: s, own: func(_ files.Space, own files.Own) files.Own {
				return altered{Own: own, one: func(n files.Node) files.Node {
					if !n.Replaced.IsZero() {
						return files.Node{}
					}
					return n
				}}
			}}
		}},
		"shows the history of others": {store: func(s files.Store) files.Store {
			return keeper{Store: s, space: func(files.Space) files.Space { return "default/user/coder/a" }}
		}},
		"shows what came later": {store: func(s files.Store) files.Store {
			return keeper{Store: s, own: func(_ files.Space, own files.Own) files.Own { return growing{own} }}
		}},
		"keeps the history of whom it forgets": {store: func(s files.Store) files.Store { return unforgetting{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := testkit.Failures(func(t testkit.T) {
				storetest.RunHistory(t, func(t testkit.T) storetest.Place {
					path := filepath.Join(t.TempDir(), "files.db")
					return func(policy files.History, now func() time.Time) files.Store {
						if broken.policy != nil {
							policy = broken.policy(policy)
						}
						store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, History: policy}, now)
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { store.Close() })
						if broken.store != nil {
							return broken.store(store)
						}
						return store
					}
				})
			})
			if len(failures) == 0 {
				t.Error("the suite notices nothing")
			} else {
				t.Logf("%d findings, the first: %s", len(failures), failures[0])
			}
		})
	}
}

// unforgetting keeps the history of a space that is forgotten: it removes the files one by one.
type unforgetting struct{ files.Store }

func (u unforgetting) Forget(ctx context.Context, s files.Space) (int64, error) {
	var gone int64
	_, err := u.Store.Update(ctx, s, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		page, err := tx.Below(ctx, fsops.Path{}, "", 1000)
		if err != nil {
			return nil, err
		}
		for _, n := range page.Nodes {
			if n.Kind == files.KindFile {
				if err := tx.Remove(ctx, n.Path); err != nil {
					return nil, err
				}
				gone++
			}
		}
		return nil, nil
	})
	return gone, err
}
