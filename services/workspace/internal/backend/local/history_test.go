package local

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

var policy = files.History{Count: 100, MaxFileBytes: 1 << 20}

func startKeeping(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, History: policy}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// past returns the contents of what a store keeps of a path, newest first.
func past(t *testing.T, s files.Store, name string) []string {
	t.Helper()
	own := s.Space(space)
	nodes, _, err := own.Revisions(t.Context(), fsops.PathOf(name), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range nodes {
		data, err := own.Load(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if data[0] == nil {
			out = append(out, "lost")
			continue
		}
		out = append(out, fmt.Sprintf("%s %v", data[0], n.Removed))
	}
	return out
}

// state is all that a store has of some names, with their history.
func state(t *testing.T, s files.Store, names []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	own := s.Space(space)
	for _, name := range names {
		n, err := own.Get(t.Context(), fsops.PathOf(name))
		if err != nil {
			t.Fatal(err)
		}
		now := "-"
		if n[0].Kind == files.KindFile {
			data, err := own.Load(t.Context(), n[0])
			if err != nil {
				t.Fatal(err)
			}
			now = string(data[0]) + " " + n[0].Author + " " + n[0].SHA256[:4]
		}
		out[name] = now + " <- " + strings.Join(past(t, s, name), ", ")
	}
	u, err := s.Usage(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	out["usage"] = fmt.Sprint(u)
	return out
}

// someChanges changes files in one update, the same ones for the same seed.
func someChanges(s files.Store, names []string, seed uint64) func(context.Context, files.Tx) ([]byte, error) {
	return func(ctx context.Context, tx files.Tx) ([]byte, error) {
		random := rand.New(rand.NewPCG(seed, 1))
		has := func(name string) (bool, error) {
			n, err := tx.Get(ctx, fsops.PathOf(name))
			return err == nil && n[0].Kind == files.KindFile, err
		}
		for i := range 1 + random.IntN(12) {
			name, other := names[random.IntN(len(names))], names[random.IntN(len(names))]
			there, err := has(name)
			if err != nil {
				return nil, err
			}
			// The space stays a tree.
			inWay, err := tx.Get(ctx, fsops.PathOf(name), fsops.PathOf(name).Parent(), fsops.PathOf(other), fsops.PathOf(other).Parent())
			if err != nil {
				return nil, err
			}
			if inWay[0].Kind == files.KindDir || inWay[1].Kind == files.KindFile || inWay[2].Kind == files.KindDir || inWay[3].Kind == files.KindFile ||
				fsops.PathOf(name).Under(fsops.PathOf(other)) || fsops.PathOf(other).Under(fsops.PathOf(name)) {
				continue
			}
			staged, err := s.Stage(ctx, strings.NewReader(fmt.Sprintf("%d.%d|", seed, i)), 0)
			if err != nil {
				return nil, err
			}
			f := files.File{Path: fsops.PathOf(name), Content: staged, Mode: 0o644, Author: "ana"}
			switch op := random.IntN(4); {
			case op == 0 || !there:
				_, err = tx.Put(ctx, f)
			case op == 1:
				_, err = tx.Append(ctx, f)
			case op == 2:
				err = tx.Remove(ctx, f.Path)
			case name != other:
				_, err = tx.Rename(ctx, f.Path, fsops.PathOf(other), "ana")
			}
			staged.Discard()
			if err != nil {
				return nil, fmt.Errorf("change %d: %w", i, err)
			}
		}
		return []byte("done"), nil
	}
}

// An update of any changes of a few files, cut off after any number of its steps, is done when the store starts again: files and history are those of a store that is a database.
func TestRecoveryOfAnything(t *testing.T) {
	names := []string{"a", "b", "c", "d", "d/e", "d/f"}
	rounds := uint64(25)
	if testing.Short() {
		rounds = 8
	}
	for seed := range rounds {
		model, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "m.db"), History: policy}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		s := startKeeping(t, dir)
		random := rand.New(rand.NewPCG(seed, 2))
		for update := range uint64(3) {
			seed := seed*100 + update
			if _, err := model.Update(t.Context(), space, files.Effect{}, someChanges(model, names, seed)); err != nil {
				t.Fatal(err)
			}
			effect := files.Effect{ID: fmt.Sprint(seed)}
			p, err := s.newPlan(t.Context(), space)
			if err != nil {
				t.Fatal(err)
			}
			outcome, err := someChanges(s, names, seed)(t.Context(), p)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			in := intent{Space: space, Effect: effect, Outcome: outcome, Steps: p.steps, Changes: p.changes}
			if err := s.declare(t.Context(), &in); err != nil {
				t.Fatal(err)
			}
			root, err := s.root(space, true)
			if err != nil {
				t.Fatal(err)
			}
			done := random.IntN(len(p.steps) + 1)
			a := s.newApplier(root)
			for _, st := range p.steps[:done] {
				if err := a.apply(st); err != nil {
					t.Fatal(err)
				}
			}
			if random.IntN(2) == 0 && done < len(p.steps) {
				if err := a.keep(p.steps[done]); err != nil { // half a step
					t.Fatal(err)
				}
			}
			root.Close()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = startKeeping(t, dir)
			want, got := state(t, model, names), state(t, s, names)
			if !maps.Equal(want, got) {
				for _, name := range slices.Sorted(maps.Keys(want)) {
					if want[name] != got[name] {
						t.Errorf("seed %d, %d of %d steps: %s is %s, want %s", seed, done, len(p.steps), name, got[name], want[name])
					}
				}
				return
			}
		}
		if err := model.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "staging")); err != nil || len(left) != 0 {
			t.Errorf("seed %d: %d files left in staging, %v", seed, len(left), err)
		}
	}
}

// A file that was changed outside becomes a revision as it is when that is noticed. What it was before is gone, and so is not kept.
func TestHistoryOfOutside(t *testing.T) {
	for _, scan := range []bool{false, true} {
		s := startKeeping(t, t.TempDir())
		put(t, s, "a", "1")
		put(t, s, "a", "2")
		if _, err := view(s).Append(t.Context(), files.Call{}, fsops.PathOf("a"), []byte("3"), false); err != nil {
			t.Fatal(err)
		}
		place, _, err := s.Locate(space)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "new"} {
			if err := os.WriteFile(filepath.Join(place, name), []byte("outside "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if scan {
			if err := s.scan(t.Context(), space); err != nil {
				t.Fatal(err)
			}
		}
		put(t, s, "a", "4")
		if _, err := view(s).Delete(t.Context(), files.Call{}, files.Delete{Path: fsops.PathOf("new")}); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"a": "[outside a false 1 false]", "new": "[outside new true]"} {
			if got := fmt.Sprint(past(t, s, name)); got != want {
				t.Errorf("scan %v: kept of %s: %s, want %s", scan, name, got, want)
			}
		}
		nodes, _, err := s.Space(space).Revisions(t.Context(), fsops.PathOf("a"), "", 1)
		if err != nil || nodes[0].Author != "outside" {
			t.Errorf("the revision from outside: %+v, %v", nodes, err)
		}
	}
}

// A revision whose bytes were changed outside before anyone noticed is not shown with other bytes.
func TestHistoryIsVerified(t *testing.T) {
	s := startKeeping(t, t.TempDir())
	put(t, s, "log", "one ")
	if _, err := view(s).Append(t.Context(), files.Call{}, fsops.PathOf("log"), []byte("two "), false); err != nil {
		t.Fatal(err)
	}
	place, _, err := s.Locate(space)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(place, "log"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("three")
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if got := past(t, s, "log"); fmt.Sprint(got) != "[one  false]" {
		t.Errorf("an append from outside: %q", got)
	}
	if err := os.WriteFile(filepath.Join(place, "log"), []byte("something else altogether"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := past(t, s, "log"); fmt.Sprint(got) != "[lost]" {
		t.Errorf("a change outside: %q", got)
	}
}

// A file that has another name stays in its history as it was, whatever is written through that name.
func TestHistoryOfLinkedFiles(t *testing.T) {
	s := startKeeping(t, t.TempDir())
	put(t, s, "a", "one")
	put(t, s, "behind", "behind")
	place, _, err := s.Locate(space)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(place, "a"), filepath.Join(place, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("behind", filepath.Join(place, "soft")); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "two")
	put(t, s, "soft", "a file now")
	for _, name := range []string{"hard", "behind"} {
		if err := os.WriteFile(filepath.Join(place, name), []byte("xxxxxx"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := past(t, s, "a"); fmt.Sprint(got) != "[one false]" {
		t.Errorf("kept of a: %q", got)
	}
	if got := past(t, s, "soft"); fmt.Sprint(got) != "[behind false]" {
		t.Errorf("kept of soft: %q", got)
	}
}

// What nothing refers to goes: at a start, after a crash, and with the sweep, after pruning.
func TestHistoryIsCleared(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	open := func() *Store {
		s, err := Open(t.Context(), Config{Dir: dir, History: files.History{Count: 2}}, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	for i := range 40 {
		put(t, s, "f", fmt.Sprint(i))
	}
	put(t, s, "other", "1")
	put(t, s, "other", "2")
	now = now.Add(2 * time.Hour) // replaced content stays for an hour for those who read it
	for i := range 300 {
		put(t, s, "busy", fmt.Sprint(i))
	}
	count := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "history", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if got := fmt.Sprint(past(t, s, "f")); !strings.HasPrefix(got, "[38 false 37 false") {
		t.Errorf("kept of f: %s", got)
	}
	before := count()
	if before > 303 { // those of busy were replaced just now
		t.Errorf("%d files are kept, with a count of 2", before)
	}
	stray := s.historyFile(1 << 40)
	if err := os.MkdirAll(filepath.Dir(stray), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stray, stray + ".part"} {
		if err := os.WriteFile(name, []byte("stray"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	if got := count(); got != before {
		t.Errorf("%d files are kept after a start, want %d", got, before)
	}
	if got := fmt.Sprint(past(t, s, "other")); got != "[1 false]" {
		t.Errorf("kept of other: %s", got)
	}
	if _, err := s.Forget(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	if got := count(); got != 0 {
		t.Errorf("%d files are kept of a forgotten space", got)
	}
}
