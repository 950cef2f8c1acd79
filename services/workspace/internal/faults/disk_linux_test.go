package faults

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// small mounts a file system of a few megabytes.
func small(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		testkit.Skip(t, "namespace", "a file system can be mounted by root only: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDiskFull fills the disk: each kind of change fails with STORE_READ_ONLY or RESOURCE_EXHAUSTED, what was there stays whole, and when there is room again
// everything works, without a restart.
func TestDiskFull(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, dir string) files.Store{
		"local": func(t *testing.T, dir string) files.Store {
			return opened(local.Open(t.Context(), local.Config{Dir: dir, History: files.DefaultHistory()}, time.Now))(t)
		},
		"sqlite": func(t *testing.T, dir string) files.Store {
			return opened(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "files.db"), History: files.DefaultHistory()}, time.Now))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := small(t, "size=24m")
			store := open(t, dir)
			old := bytes.Repeat([]byte("old content\n"), 20_000)
			mustWrite(t, store, ana, "kept", old)
			mustWrite(t, store, ana, "d/one", []byte("1"))
			fill(t, filepath.Join(dir, "fill"))
			view := viewOf(store, ana)
			large := bytes.Repeat([]byte("new content\n"), 200_000)
			refused := func(what string, err error) {
				t.Helper()
				if errdefs.ReasonOf(err) != fsops.ReasonStoreReadOnly && !errors.Is(err, errdefs.ErrResourceExhausted) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for range 3 {
				refused("overwrite", write(t.Context(), store, ana, "kept", large))
				refused("create", write(t.Context(), store, ana, "new", large))
				_, err := view.Append(t.Context(), call, fsops.PathOf("kept"), large, false)
				refused("append", err)
				mustHold(t, store, ana, "kept", old)
				mustHold(t, store, ana, "d/one", []byte("1"))
				if _, err := view.Stat(t.Context(), fsops.PathOf("new")); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
					t.Errorf("a file that could not be written is there: %v", err)
				}
			}
			if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, store, ana, "kept", large)
			mustHold(t, store, ana, "kept", large)
			if _, err := view.Move(t.Context(), call, files.Move{From: fsops.PathOf("d"), To: fsops.PathOf("e")}); err != nil {
				t.Errorf("move: %v", err)
			}
			mustHold(t, store, ana, "e/one", []byte("1"))
			used, err := store.Usage(t.Context(), ana)
			if err != nil || used.Files != 2 || used.Bytes != int64(len(large)+1) {
				t.Errorf("usage %+v, %v", used, err)
			}
		})
	}
}

// fill leaves no room on the file system of a path.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadOnlyDisk turns the disk read-only while the store is open: reads go on, changes say why they don't.
func TestReadOnlyDisk(t *testing.T) {
	dir := small(t, "size=16m")
	store := opened(local.Open(t.Context(), local.Config{Dir: filepath.Join(dir, "data")}, time.Now))(t)
	mustWrite(t, store, ana, "kept", []byte("old"))
	root, _, err := store.Locate(ana)
	if err != nil {
		t.Fatal(err)
	}
	// A read-only mount over the bucket alone: the store's own tables stay writable, as on a disk with a failed part.
	if err := syscall.Mount(root, root, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	if err := syscall.Mount("", root, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), store, ana, "kept", []byte("new")); errdefs.ReasonOf(err) != fsops.ReasonStoreReadOnly {
		t.Errorf("write: %v", err)
	}
	mustHold(t, store, ana, "kept", []byte("old"))
	if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, store, ana, "kept", []byte("new"))
	mustHold(t, store, ana, "kept", []byte("new"))
}
