package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func historyOfDeleted(t testkit.T, places Places) {
	u := kept(t, places, all)
	u.write("d/f", "1")
	u.write("d/f", "2")
	u.write("d/g", "g")
	u.remove("d")
	u.lacks("d")
	u.had("d/f", "2", "1")
	u.had("d/g", "g")
	if n := u.past("d/f"); !n[0].Removed || n[1].Removed {
		t.Errorf("the revisions of a deleted file: %+v", n)
	}
	u.write("d", "a file where the directory was")
	u.had("d/f", "2", "1")
	u.remove("d")
	u.write("d/f", "3")
	u.write("d/f", "4")
	u.had("d/f", "3", "2", "1")
	if n := u.past("d/f"); n[0].Removed || !n[1].Removed {
		t.Errorf("the revisions of a file that came back: %+v", n)
	}
}

func historyOfAppends(t testkit.T, places Places) {
	u := kept(t, places, all)
	var want []string
	content := ""
	for i := range 12 {
		part := fmt.Sprintf("%d%s\n", i, strings.Repeat("é", i*i*100))
		if _, err := u.Append(u.ctx, call, path("log"), []byte(part), false); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			want = append([]string{content}, want...)
		}
		content += part
		u.had("log", want...)
	}
	own := u.store.Space(u.Space())
	both := append(u.past("log")[:3:3], u.stat("log"))
	loaded, err := own.Load(u.ctx, both...)
	if err != nil || string(loaded[0]) != want[0] || string(loaded[2]) != want[2] || string(loaded[3]) != content {
		t.Errorf("several revisions of one file loaded at once: %v", err)
	}
	// What follows must not reach into what was kept.
	want = append([]string{content}, want...)
	u.write("log", "new")
	u.had("log", want...)
	if _, err := u.Append(u.ctx, call, path("log"), []byte("er"), false); err != nil {
		t.Fatal(err)
	}
	want = append([]string{"new"}, want...)
	u.had("log", want...)
	u.remove("log")
	u.had("log", append([]string{"newer"}, want...)...)
}

func (u user) stat(name string) files.Node {
	u.Helper()
	n, err := u.store.Space(u.Space()).Get(u.ctx, path(name))
	if err != nil {
		u.Fatal(err)
	}
	return n[0]
}

func historyOfMoves(t testkit.T, places Places) {
	u := kept(t, places, all)
	move := func(from, to string) {
		t.Helper()
		if _, err := u.Move(u.ctx, call, files.Move{From: path(from), To: path(to), Overwrite: true}); err != nil {
			t.Fatal(err)
		}
	}
	u.write("a", "1")
	u.write("a", "2")
	u.write("b", "other")
	move("a", "b")
	u.had("a", "2", "1")
	u.had("b", "other")
	if n := u.past("a"); !n[0].Removed {
		t.Errorf("a revision that was moved away: %+v", n[0])
	}
	if n := u.past("b"); n[0].Removed {
		t.Errorf("a revision that a move replaced: %+v", n[0])
	}
	// The moved file goes on by itself.
	if _, err := u.Append(u.ctx, call, path("b"), []byte("+"), false); err != nil {
		t.Fatal(err)
	}
	u.write("b", "3")
	u.had("a", "2", "1")
	u.had("b", "2+", "2", "other")
	u.write("a", "again")
	u.had("a", "2", "1")
	move("b", "c/d")
	move("c", "e")
	u.had("b", "3", "2+", "2", "other")
	u.had("c/d", "3")
	u.has("e/d", "3")
	u.remove("e")
	u.had("c/d", "3")
	u.had("e/d", "3")
}

// What only one update has seen is no revision; what it found is one, whatever it did on the way.
func historyOfOneUpdate(t testkit.T, places Places) {
	u := kept(t, places, all)
	u.write("twice", "0")
	u.write("back", "0")
	u.write("away", "0")
	u.write("log", "0")
	u.write("new home", "0")
	_, err := u.store.Update(u.ctx, u.Space(), files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		put := func(name, content string) error {
			staged, err := u.store.Stage(ctx, strings.NewReader(content), 0)
			if err == nil {
				_, err = tx.Put(ctx, files.File{Path: path(name), Content: staged, Mode: 0o644})
			}
			return err
		}
		add := func(name, content string) error {
			staged, err := u.store.Stage(ctx, strings.NewReader(content), 0)
			if err == nil {
				_, err = tx.Append(ctx, files.File{Path: path(name), Content: staged})
			}
			return err
		}
		for _, f := range []func() error{
			func() error { return put("twice", "1") },
			func() error { return put("twice", "2") },
			func() error { return add("twice", "+") },
			func() error { return tx.Remove(ctx, path("back")) },
			func() error { return put("back", "1") },
			func() error { return put("away", "1") },
			func() error { return tx.Remove(ctx, path("away")) },
			func() error { return add("log", "1") },
			func() error { return add("log", "2") },
			func() error { return put("short", "1") },
			func() error { return tx.Remove(ctx, path("short")) },
			func() error { return put("from", "moved") },
			func() error { _, err := tx.Rename(ctx, path("from"), path("new home"), "ana"); return err },
			func() error { _, err := tx.Rename(ctx, path("new home"), path("last home"), "ana"); return err },
		} {
			if err := f(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"twice": "2+", "back": "1", "log": "012", "last home": "moved"} {
		u.has(name, content)
	}
	for _, name := range []string{"twice", "back", "away", "log", "new home"} {
		u.had(name, "0")
		removed := name == "away" || name == "new home"
		if n := u.past(name); len(n) == 1 && n[0].Removed != removed {
			t.Errorf("removed is %v for %s", n[0].Removed, name)
		}
	}
	for _, name := range []string{"short", "from", "last home"} {
		u.had(name)
	}
}
