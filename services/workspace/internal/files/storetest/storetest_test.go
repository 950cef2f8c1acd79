package storetest_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// faulty is a store that is broken in one way.
type faulty struct {
	files.Store
	space  func(files.Space) files.Space
	update func(files.Tx) files.Tx
	effect func(files.Effect) files.Effect
	order  func([]files.Change)
	half   bool // an update that fails leaves what it did until then
}

func (f faulty) at(s files.Space) files.Space {
	if f.space != nil {
		return f.space(s)
	}
	return s
}

func (f faulty) Space(s files.Space) files.Own { return f.Store.Space(f.at(s)) }

func (f faulty) Update(ctx context.Context, s files.Space, e files.Effect, do func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	if f.effect != nil {
		e = f.effect(e)
	}
	var failed error
	done, err := f.Store.Update(ctx, f.at(s), e, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		if f.update != nil {
			tx = f.update(tx)
		}
		outcome, err := do(ctx, tx)
		if f.half {
			failed, err = err, nil
		}
		return outcome, err
	})
	if err == nil {
		err = failed
	}
	return done, err
}

func (f faulty) Changes(ctx context.Context, s files.Space, after files.Cursor, limit int) ([]files.Change, error) {
	out, err := f.Store.Changes(ctx, f.at(s), after, limit)
	if f.order != nil {
		f.order(out)
	}
	return out, err
}

func (f faulty) Head(ctx context.Context, s files.Space) (files.Cursor, error) {
	return f.Store.Head(ctx, f.at(s))
}

func (f faulty) Usage(ctx context.Context, s files.Space) (files.Usage, error) {
	return f.Store.Usage(ctx, f.at(s))
}

// lossy drops every seventh write, and says that it made it.
type lossy struct {
	files.Tx
	n *int
}

func (l lossy) Put(ctx context.Context, f files.File) (files.Node, error) {
	if *l.n++; *l.n%7 == 0 {
		return files.Node{Path: f.Path, Kind: files.KindFile, Size: f.Content.Size(), Revision: "lost", Author: f.Author, Mode: f.Mode}, nil
	}
	return l.Tx.Put(ctx, f)
}

// forgetful keeps no whiteouts.
type forgetful struct{ files.Tx }

func (forgetful) SetWhiteout(context.Context, fsops.Path) error { return nil }

// stale gives every revision of a file the same name.
type stale struct{ files.Tx }

func (s stale) Put(ctx context.Context, f files.File) (files.Node, error) {
	n, err := s.Tx.Put(ctx, f)
	n.Revision = "r"
	return n, err
}

// secretive logs no deletions.
type secretive struct{ files.Tx }

func (s secretive) Log(ctx context.Context, c files.Change) error {
	if c.Kind == files.ChangeDeleted {
		return nil
	}
	return s.Tx.Log(ctx, c)
}

// The suite fails for a store that breaks a promise.
func TestSuiteNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once for each fault")
	}
	for name, broken := range map[string]func(files.Store) files.Store{
		"drops a write": func(s files.Store) files.Store {
			n := 0
			return faulty{Store: s, update: func(tx files.Tx) files.Tx { return lossy{tx, &n} }}
		},
		"ignores the bucket": func(s files.Store) files.Store {
			return faulty{Store: s, space: func(files.Space) files.Space { return "all" }}
		},
		"ignores letter case": func(s files.Store) files.Store {
			return faulty{Store: s, space: func(s files.Space) files.Space { return files.Space(strings.ReplaceAll(string(s), "=41", "a")) }}
		},
		"forgets whiteouts": func(s files.Store) files.Store {
			return faulty{Store: s, update: func(tx files.Tx) files.Tx { return forgetful{tx} }}
		},
		"repeats effects": func(s files.Store) files.Store {
			return faulty{Store: s, effect: func(files.Effect) files.Effect { return files.Effect{} }}
		},
		"ignores the hash of effects": func(s files.Store) files.Store {
			return faulty{Store: s, effect: func(e files.Effect) files.Effect { e.Hash = ""; return e }}
		},
		"repeats revisions": func(s files.Store) files.Store {
			return faulty{Store: s, update: func(tx files.Tx) files.Tx { return stale{tx} }}
		},
		"leaves half of a change": func(s files.Store) files.Store {
			return faulty{Store: s, half: true}
		},
		"logs no deletions": func(s files.Store) files.Store {
			return faulty{Store: s, update: func(tx files.Tx) files.Tx { return secretive{tx} }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := testkit.Failures(func(t testkit.T) {
				storetest.Run(t, func(t testkit.T) files.Store {
					store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "files.db")}, time.Now)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { store.Close() })
					return broken(store)
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
