package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// FuzzLocalPath writes, reads and deletes at any path of plain files: it works or is refused with a type, and nothing is made or changed outside of the bucket.
func FuzzLocalPath(f *testing.F) {
	for _, seed := range append(oddNames, "../x", "a/../../x", "link/x", "link", "link/../x", "d/..//./e", "\x00", strings.Repeat("a/", 300), "/etc/passwd", "//x", "d/", "..\\x") {
		f.Add(seed)
	}
	top := f.TempDir()
	store, err := local.Open(f.Context(), local.Config{Dir: filepath.Join(top, "data")}, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	defer store.Close()
	root, _, err := store.Locate(ana)
	if err != nil {
		f.Fatal(err)
	}
	outside := filepath.Join(top, "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		f.Fatal(err)
	}
	view := viewOf(store, ana)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := fsops.ParseFilePath(text)
		if err != nil {
			if _, typed := err.(*errdefs.Error); !typed {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		staged, err := store.Stage(t.Context(), strings.NewReader(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = view.Write(t.Context(), call, files.Write{Path: p}, staged); err != nil {
			mustBeTyped(t, err)
		} else if _, got, err := view.ReadAll(t.Context(), p, 1<<20); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q holds %q: %v", text, got, err)
		} else if _, err := view.Delete(t.Context(), call, files.Delete{Path: p}); err != nil {
			t.Errorf("delete %q: %v", text, err)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
			t.Fatalf("%q made %v outside: %v", text, entries, err)
		}
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 {
			t.Fatalf("%q made %v outside: %v", text, entries, err)
		}
	})
}
