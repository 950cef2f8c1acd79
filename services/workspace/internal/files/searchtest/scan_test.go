package searchtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// mounted returns a view of a directory as a bucket, over templates in other directories.
func mounted(t *testing.T, dir string, lower ...string) *files.View {
	t.Helper()
	const space = files.Space("default/user/coder/ana")
	store, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), Mounts: map[files.Space]string{space: dir}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	layers := []files.Layer{files.LayerUser, files.LayerTemplate}
	var below []files.Lower
	for i, dir := range lower {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		below = append(below, files.Lower{Layer: layers[i], Tree: disktree.New(root, func(p fsops.Path) bool { return p.Name() != "hidden" })})
	}
	return files.NewView(store, space, below, files.Limits{}, time.Now)
}

func put(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func grep(ctx context.Context, t *testing.T, v *files.View, g files.Grep, pattern string, emit func(files.Hit) error) (files.GrepEnd, error) {
	t.Helper()
	var err error
	if g.Search, err = fsops.CompileGrep(fsops.GrepRequest{Pattern: pattern}); err != nil {
		t.Fatal(err)
	}
	if g.MaxMatches == 0 {
		g.MaxMatches = 1 << 30
	}
	g.MaxPerFile, g.MaxTime = g.MaxMatches, time.Minute
	return v.Grep(ctx, g, emit)
}

func lines(t *testing.T, v *files.View, g files.Grep, pattern string) string {
	t.Helper()
	var out []string
	end, err := grep(t.Context(), t, v, g, pattern, func(h files.Hit) error {
		out = append(out, fmt.Sprintf("%s/%d", h.Path, h.Layer))
		return nil
	})
	if err != nil || end.Reason != "" {
		t.Fatal(end, err)
	}
	return strings.Join(out, " ")
}

func TestScanLayers(t *testing.T) {
	bucket, user, template := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, bucket, "a/own=needle", "a/over=nothing", "b=a file over a directory", "ignored/x=needle")
	put(t, user, "a/over=needle of the user", "a/user=needle", "c=a file over a directory", "d/e/f=needle")
	put(t, template, "a/over=needle of the template", "a/template=needle", "b/below=needle", "c/below=needle", "d/e/f=needle", "d/e/g=needle", "d/hidden=needle", "hidden/x=needle",
		".gitignore=ignored/\n", "gone/x=needle", "kept/x=needle", "kept/y=needle")
	v := mounted(t, bucket, user, template)
	for _, name := range []string{"gone", "kept/x"} {
		if _, err := v.Delete(t.Context(), files.Call{}, files.Delete{Path: fsops.PathOf(name), Recursive: true}); err != nil {
			t.Fatal(err)
		}
	}
	const want = "a/own/1 a/template/3 a/user/2 d/e/f/2 d/e/g/3 kept/y/3"
	if got := lines(t, v, files.Grep{}, "needle"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := lines(t, v, files.Grep{Ignored: true}, "needle"); got != strings.Replace(want, "kept", "ignored/x/1 kept", 1) {
		t.Errorf("with ignored files %s", got)
	}
	if got := lines(t, v, files.Grep{Path: fsops.PathOf("d/e"), Allowed: func(p fsops.Path) bool { return p.Name() != "g" }}, "needle"); got != "d/e/f/2" {
		t.Errorf("below d/e: %s", got)
	}
}

func TestScanLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "secret=needle", "d/secret=needle")
	put(t, dir, "file=needle", "d/x=needle")
	for name, to := range map[string]string{"to-file": "file", "to-dir": "d", "out": filepath.Join(outside, "secret"), "out-dir": outside, "up": "../" + filepath.Base(outside), "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	if _, err := grep(t.Context(), t, mounted(t, dir), files.Grep{}, "needle", func(h files.Hit) error {
		out = append(out, h.Path.String())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out, " "); got != "d/x file to-file" {
		t.Errorf("got %s", got)
	}
}

// More hits than may wait, of which a receiver takes its time for each, all come in order; a cap or a cancelled context ends all at once.
func TestScanManyHits(t *testing.T) {
	dir := t.TempDir()
	const perFile, inDir, dirs = 400, 20, 20
	content := strings.Repeat("needle "+strings.Repeat("x", 500)+"\n", perFile)
	for d := range dirs {
		for f := range inDir {
			put(t, dir, fmt.Sprintf("d%02d/e/f%02d=%s", d, f, content))
		}
	}
	v := mounted(t, dir)
	last, n := "", 0
	end, err := grep(t.Context(), t, v, files.Grep{}, "needle", func(h files.Hit) error {
		if at := fmt.Sprintf("%s:%04d", h.Path, h.Line); at > last {
			last = at
		} else {
			return fmt.Errorf("%s after %s", at, last)
		}
		n++
		return nil
	})
	if err != nil || n != perFile*inDir*dirs || end.Files != inDir*dirs {
		t.Fatalf("%d hits, %+v, %v", n, end, err)
	}
	end, err = grep(t.Context(), t, v, files.Grep{MaxMatches: 5}, "needle", func(files.Hit) error { return nil })
	if err != nil || end.Matches != 5 || end.Reason != "max_matches" || end.Files >= inDir*dirs/2 { // those that were in work beside the first
		t.Fatalf("with a cap of five %+v, %v", end, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	_, err = grep(ctx, t, v, files.Grep{}, "needle", func(files.Hit) error {
		if n++; n == 10 {
			cancel()
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || n != 10 {
		t.Fatalf("cancelled: %d hits, %v", n, err)
	}
}

// What is removed and replaced meanwhile is no error.
func TestScanWhileChanged(t *testing.T) {
	dir := t.TempDir()
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			name := filepath.Join(dir, fmt.Sprintf("d%d", i%7))
			if err := errors.Join(os.MkdirAll(name, 0o755), os.WriteFile(filepath.Join(name, "f"), []byte("needle\n"), 0o644)); err != nil {
				done <- err
				return
			}
			if i%3 == 0 {
				os.RemoveAll(name)
			}
		}
	}()
	v := mounted(t, dir)
	for range 200 {
		end, err := grep(t.Context(), t, v, files.Grep{}, "needle", func(files.Hit) error { return nil })
		if err != nil || end.Reason != "" {
			t.Fatalf("%+v, %v", end, err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A deep directory is searched with a bounded number of handles.
func TestScanDeep(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("d/", 300)
	put(t, dir, deep+"f=needle", "d/d/g=needle")
	if got := lines(t, mounted(t, dir), files.Grep{}, "needle"); got != deep+"f/1 d/d/g/1" {
		t.Errorf("got %s", got)
	}
}
