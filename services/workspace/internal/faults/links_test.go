package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// TestLinkRaces changes a directory of a bucket for a link to a place outside, and back, while files below it are written, read, listed, searched, moved and
// deleted: nothing outside is read, changed or removed, and nothing is made there.
func TestLinkRaces(t *testing.T) {
	store := opened(local.Open(t.Context(), local.Config{Dir: t.TempDir(), History: files.DefaultHistory()}, time.Now))(t)
	root, ok, err := store.Locate(ana)
	if err != nil || !ok {
		t.Fatalf("locate: %v", err)
	}
	outside := t.TempDir()
	secret := []byte("secret of another one\n")
	for _, name := range []string{"f", "g", "sub/f"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, name), secret, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir, aside := filepath.Join(root, "d"), filepath.Join(root, "aside")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swaps := 0
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Each step may fail, since the other side moves things too.
			_ = os.Rename(dir, aside)
			_ = os.Symlink(outside, dir)
			_ = os.Remove(dir)
			_ = os.Rename(aside, dir)
			swaps++
		}
	})
	view := viewOf(store, ana)
	leaked := func(what string, content []byte) {
		if bytes.Contains(content, []byte("secret")) {
			t.Errorf("%s gives out what is outside", what)
		}
	}
	search, err := fsops.CompileGrep(fsops.GrepRequest{Pattern: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(1500 * time.Millisecond)
	rounds, done := 0, 0
	for ; time.Now().Before(deadline) && !t.Failed(); rounds++ {
		count := func(err error) {
			if err == nil {
				done++
			}
		}
		count(write(t.Context(), store, ana, "d/f", []byte("mine\n")))
		count(write(t.Context(), store, ana, "d/sub/f", []byte("mine\n")))
		_, content, err := view.ReadAll(t.Context(), fsops.PathOf("d/f"), 1<<20)
		count(err)
		leaked("a read", content)
		_, err = view.Append(t.Context(), call, fsops.PathOf("d/g"), []byte("mine\n"), true)
		count(err)
		_, err = view.Grep(t.Context(), files.Grep{Search: search, MaxMatches: 10, MaxPerFile: 10, MaxTime: time.Second}, func(h files.Hit) error {
			leaked("a search", []byte(h.Hit.Text))
			return nil
		})
		count(err)
		_, err = view.Move(t.Context(), call, files.Move{From: fsops.PathOf("d/f"), To: fsops.PathOf("e/f"), Overwrite: true})
		count(err)
		_, content, err = view.ReadAll(t.Context(), fsops.PathOf("e/f"), 1<<20)
		count(err)
		leaked("a moved file", content)
		_, err = view.Move(t.Context(), call, files.Move{From: fsops.PathOf("e/f"), To: fsops.PathOf("d/f"), Overwrite: true})
		count(err)
		_, err = view.Delete(t.Context(), call, files.Delete{Path: fsops.PathOf("d"), Recursive: true})
		count(err)
	}
	close(stop)
	swapping.Wait()
	t.Logf("%d rounds, %d calls worked, %d swaps", rounds, done, swaps)
	if done == 0 || swaps == 0 {
		t.Error("nothing happened at once")
	}
	var found []string
	err = filepath.WalkDir(outside, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		found = append(found, path)
		if content, err := os.ReadFile(path); err != nil || !bytes.Equal(content, secret) {
			t.Errorf("%s outside is %q: %v", path, content, err)
		}
		return nil
	})
	if err != nil || len(found) != 3 {
		t.Errorf("outside are %q: %v", found, err)
	}
}
