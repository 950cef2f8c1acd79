package composite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Content of any size waits until its path is known, and leaves nothing behind, whether it is used or not.
func TestSpool(t *testing.T) {
	b := newBench(t, "r", "second")
	v := plain(b.alive, user("ana"))
	for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 3 << 20} {
		content := strings.Repeat("x", size)
		b.write(v, map[string]string{"r/f": content, "f": content})
		for _, p := range []string{"r/f", "f"} {
			if _, data, err := v.ReadAll(t.Context(), path(p), 8<<20); err != nil || string(data) != content {
				t.Errorf("%s of %d bytes: %d bytes, %v", p, size, len(data), err)
			}
		}
		unused, err := b.alive.Stage(t.Context(), strings.NewReader(content), 0)
		if err != nil {
			t.Fatal(err)
		}
		unused.Discard()
		unused.Discard()
		if size == 0 {
			continue
		}
		if _, err := b.alive.Stage(t.Context(), strings.NewReader(content), int64(size-1)); size > 1 && errdefs.ReasonOf(err) != fsops.ReasonTooLarge {
			t.Errorf("%d bytes over the limit: %v", size, err)
		}
		broken := errors.New("broken")
		if _, err := b.alive.Stage(t.Context(), io.MultiReader(strings.NewReader(content), iotest.ErrReader(broken)), 0); !errors.Is(err, broken) {
			t.Errorf("content that breaks off after %d bytes: %v", size, err)
		}
	}
	left, err := os.ReadDir(b.cfg.SpoolDir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.alive.Stage(ctx, strings.NewReader("x"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A spool that can't be written is a typed error without the path of the host.
func TestSpoolFails(t *testing.T) {
	cfg := newBench(t, "r", "second").cfg
	cfg.SpoolDir = t.TempDir() + "/none"
	s := openIn(t, cfg)
	_, err := s.Stage(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20)), 0)
	if errdefs.ClassOf(err) != errdefs.ErrUnavailable || err == nil {
		t.Fatalf("got %v", err)
	}
	if known, ok := errors.AsType[*errdefs.Error](err); !ok || strings.Contains(known.Public(), "none") {
		t.Errorf("the public message is %q", known.Public())
	}
	if _, err := s.Stage(t.Context(), strings.NewReader("small"), 0); err != nil {
		t.Errorf("small content needs no spool: %v", err)
	}
}

// Content staged in one store is refused by another, as with every backend.
func TestForeignContent(t *testing.T) {
	one, two := newBench(t, "r", "second"), newBench(t, "r", "second")
	for _, s := range []files.Store{two.alive, one.inner[0]} {
		staged, err := s.Stage(t.Context(), strings.NewReader("x"), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer staged.Discard()
		_, err = one.alive.Update(t.Context(), user("ana"), files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
			_, err := tx.Put(ctx, files.File{Path: path("f"), Content: staged, ModTime: time.Now()})
			return nil, err
		})
		if err == nil {
			t.Error("foreign content was taken")
		}
	}
}
