package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func start(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const space = files.Space("default/user/coder/ana")

func view(s *Store) *files.View { return files.NewView(s, space, nil, files.Limits{}, time.Now) }

func put(t *testing.T, s *Store, name, content string) {
	t.Helper()
	staged, err := s.Stage(t.Context(), strings.NewReader(content), 0)
	if err == nil {
		_, err = view(s).Write(t.Context(), files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(name)}, staged)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Store, name string) string {
	t.Helper()
	_, data, err := view(s).ReadAll(t.Context(), fsops.PathOf(name), 1<<20)
	if err != nil {
		return errdefs.ReasonOf(err)
	}
	return string(data)
}

// A process that ends after any number of steps of an update finds it done when it starts again, once.
func TestRecovery(t *testing.T) {
	for steps := 0; steps <= 5; steps++ {
		dir := t.TempDir()
		s := start(t, dir)
		put(t, s, "log", "old|")
		put(t, s, "d/moved", "moved")
		put(t, s, "gone/x", "x")
		put(t, s, "over", "old")
		effect := files.Effect{ID: "e", Hash: "h"}
		p, err := s.newPlan(t.Context(), space)
		if err != nil {
			t.Fatal(err)
		}
		stage := func(content string) files.Staged {
			staged, err := s.Stage(t.Context(), strings.NewReader(content), 0)
			if err != nil {
				t.Fatal(err)
			}
			return staged
		}
		f := func(ctx context.Context, tx files.Tx) ([]byte, error) {
			if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf("over"), Content: stage("new"), Mode: 0o644}); err != nil {
				return nil, err
			}
			if _, err := tx.Append(ctx, files.File{Path: fsops.PathOf("log"), Content: stage("added|")}); err != nil {
				return nil, err
			}
			if _, err := tx.Rename(ctx, fsops.PathOf("d/moved"), fsops.PathOf("e/moved"), "ana"); err != nil {
				return nil, err
			}
			// Another file takes the old name: carrying the rename out again must leave it alone.
			if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf("d/moved"), Content: stage("second"), Mode: 0o644}); err != nil {
				return nil, err
			}
			if err := tx.Remove(ctx, fsops.PathOf("gone/x")); err != nil {
				return nil, err
			}
			return []byte("outcome"), tx.Log(ctx, files.Change{Kind: files.ChangeWritten, Path: fsops.PathOf("over")})
		}
		outcome, err := f(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		in := intent{Space: space, Effect: effect, Outcome: outcome, Steps: p.steps, Changes: p.changes}
		if err := s.declare(t.Context(), &in); err != nil {
			t.Fatal(err)
		}
		root, err := s.root(space, true)
		if err != nil {
			t.Fatal(err)
		}
		a := s.newApplier(root)
		for _, st := range p.steps[:steps] {
			if err := a.apply(st); err != nil {
				t.Fatal(err)
			}
		}
		root.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = start(t, dir)
		for name, want := range map[string]string{
			"over": "new", "log": "old|added|", "e/moved": "moved", "d/moved": "second", "gone/x": fsops.ReasonPathNotFound,
		} {
			if got := get(t, s, name); got != want {
				t.Errorf("after %d steps: %s holds %q, want %q", steps, name, got, want)
			}
		}
		e, err := view(s).Stat(t.Context(), fsops.PathOf("log"))
		if err != nil || e.Author == "outside" {
			t.Errorf("after %d steps: %+v, %v", steps, e, err)
		}
		done, err := s.Update(t.Context(), space, effect, func(context.Context, files.Tx) ([]byte, error) {
			t.Error("the effect takes place again")
			return nil, nil
		})
		if err != nil || !done.Repeated || string(done.Outcome) != "outcome" {
			t.Errorf("after %d steps: %+v, %v", steps, done, err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "staging")); err != nil || len(left) != 0 {
			t.Errorf("after %d steps: %d files left in staging, %v", steps, len(left), err)
		}
	}
}

// What people do beside the service is seen, has the author "outside", and makes an expected revision stale.
func TestOutside(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	put(t, s, "a", "1")
	put(t, s, "b", "2")
	head, err := s.Head(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	before, err := view(s).Stat(t.Context(), fsops.PathOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	place, ok, err := s.Locate(space)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for name, content := range map[string]string{"a": "edited", "new/c": "3"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(place, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(place, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(place, "b")); err != nil {
		t.Fatal(err)
	}
	e, err := view(s).Stat(t.Context(), fsops.PathOf("a"))
	if err != nil || e.Author != "outside" || e.Revision == before.Revision || e.SHA256 == before.SHA256 {
		t.Errorf("an edit outside: %+v, %v", e, err)
	}
	staged, err := s.Stage(t.Context(), strings.NewReader("x"), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = view(s).Write(t.Context(), files.Call{}, files.Write{Path: fsops.PathOf("a"), Mode: files.IfRevision, Revision: before.Revision}, staged)
	if errdefs.ReasonOf(err) != fsops.ReasonRevisionConflict {
		t.Errorf("a write over an edit outside: %v", err)
	}
	if _, err := view(s).Append(t.Context(), files.Call{}, fsops.PathOf("new/c"), []byte("+"), false); err != nil {
		t.Error(err)
	}
	if got := get(t, s, "new/c"); got != "3+" {
		t.Errorf("an append to a file from outside: %q", got)
	}

	if err := s.scan(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	var log []string
	changes, err := s.Changes(t.Context(), space, head, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		log = append(log, c.Author+":"+c.Path.String())
	}
	if got := strings.Join(log, " "); got != ":new/c outside:a outside:b" {
		t.Errorf("the change log after a scan: %s", got)
	}
	if err := s.scan(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Changes(t.Context(), space, changes[len(changes)-1].Cursor, 10); err != nil || len(again) != 0 {
		t.Errorf("a second scan logs %v, %v", again, err)
	}
	if u, err := s.Usage(t.Context(), space); err != nil || u.Files != 2 || u.Bytes != 8 {
		t.Errorf("usage after a scan: %+v, %v", u, err)
	}
}

// A second process can't have the same directory.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	if _, err := Open(t.Context(), Config{Dir: dir}, time.Now); errdefs.ReasonOf(err) != fsops.ReasonStoreReadOnly || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second owner: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
}

// A link in a bucket leads nowhere outside.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	put(t, s, "docs/PERSONA.md", "persona")
	place, _, err := s.Locate(space)
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": outside, "AGENTS.md": "docs/PERSONA.md", "dir": "docs"} {
		if err := os.Symlink(target, filepath.Join(place, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, s, "AGENTS.md"); got != "persona" {
		t.Errorf("a link inside: %q", got)
	}
	if got := get(t, s, "out/secret.txt"); got != fsops.ReasonOutsideRoot {
		t.Errorf("a link outside: %q", got)
	}
	for _, name := range []string{"out/secret.txt", "out/new.txt", "out/a/b"} {
		staged, err := s.Stage(t.Context(), strings.NewReader("x"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := view(s).Write(t.Context(), files.Call{}, files.Write{Path: fsops.PathOf(name)}, staged); errdefs.ReasonOf(err) != fsops.ReasonOutsideRoot {
			t.Errorf("write %s: %v", name, err)
		}
		if _, err := view(s).Delete(t.Context(), files.Call{}, files.Delete{Path: fsops.PathOf(name)}); errdefs.ReasonOf(err) != fsops.ReasonOutsideRoot {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	put(t, s, "dir/x", "through a link")
	if data, err := os.ReadFile(filepath.Join(place, "docs", "x")); err != nil || string(data) != "through a link" {
		t.Errorf("a write through a link inside: %q, %v", data, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there are %d files, %v", len(entries), err)
	}
}
