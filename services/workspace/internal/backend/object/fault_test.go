package object_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const space = files.Space("default/user/coder/ana")

func view(s files.Store) *files.View {
	return files.NewView(s, space, nil, files.Limits{}, time.Now)
}

func write(ctx context.Context, s files.Store, path, content string) error {
	staged, err := s.Stage(ctx, strings.NewReader(content), 0)
	if err != nil {
		return err
	}
	_, err = view(s).Write(ctx, files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(path)}, staged)
	return err
}

func read(ctx context.Context, s files.Store, path string) (string, error) {
	_, data, err := view(s).ReadAll(ctx, fsops.PathOf(path), 64<<20)
	return string(data), err
}

// public fails when the message for callers holds text of the provider or of the system.
func public(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok {
		t.Fatalf("not typed: %v", err)
	}
	for _, text := range []string{"dial", "tcp", "127.0.0.1", "timeout", "i/o", "EOF", "blob", "operation error", "StatusCode", "permission denied", "/tmp"} {
		if strings.Contains(e.Public(), text) {
			t.Errorf("the message %q says %q", e.Public(), text)
		}
	}
}

// A provider without conditional creates is refused, with what to do.
func TestUnconditional(t *testing.T) {
	server := testkit.S3Server(t, "-unconditional")
	_, err := object.Open(t.Context(), object.Config{URL: server.URL}, time.Now)
	if !errors.Is(err, errdefs.ErrFailedPrecondition) || !strings.Contains(err.Error(), "(s3)") || !strings.Contains(err.Error(), "or the backend postgres or redis") {
		t.Errorf("got %v", err)
	}
}

// A server that does not answer is UNAVAILABLE within the time of a request, and goes on where it was.
func TestFrozen(t *testing.T) {
	server := testkit.S3Server(t)
	s := open(t, object.Config{URL: server.URL, Timeout: time.Second})
	if err := write(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	thaw := server.Freeze(t)
	begun := time.Now()
	err := write(t.Context(), s, "a", "2")
	if !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("write: %v", err)
	}
	public(t, err)
	_, err = read(t.Context(), s, "a")
	if !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	public(t, err)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("that took %s", took)
	}
	thaw()
	testkit.Eventually(t, 20*time.Second, func() error { return write(t.Context(), s, "a", "3") })
	if got, err := read(t.Context(), s, "a"); err != nil || got != "3" {
		t.Errorf("read %q, %v", got, err)
	}
}

// Without a server, and with a URL that is none, Open says so.
func TestRefused(t *testing.T) {
	for _, url := range []string{"", "bucket", "ftp://bucket", "s3://bucket?nonsense=1"} {
		if _, err := object.Open(t.Context(), object.Config{URL: url}, time.Now); !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%q: %v", url, err)
		}
	}
	url := "s3://bucket?region=us-east-1&use_path_style=true&anonymous=true&endpoint=http://127.0.0.1:1"
	_, err := object.Open(t.Context(), object.Config{URL: url, Timeout: 2 * time.Second}, time.Now)
	if !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("nobody there: %v", err)
	}
	public(t, err)
}

// A directory that can't be written gives a typed error, and what is there can be read.
func TestNotWritable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, object.Config{URL: "file://" + dir})
	if err := write(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	chunks := filepath.Join(dir, "data", string(space)+"!", "chunk")
	want := func(err error) bool { return errdefs.ReasonOf(err) == fsops.ReasonStoreReadOnly }
	if os.Geteuid() == 0 {
		// Root may write to every directory, but not to a file as if it were one.
		want = func(err error) bool { return errors.Is(err, errdefs.ErrUnavailable) }
		if err := os.Rename(chunks, chunks+"-moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(chunks, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod(chunks, 0o500); err != nil {
		t.Fatal(err)
	}
	err := write(t.Context(), s, "b", "2")
	if !want(err) {
		t.Errorf("got %v", err)
	}
	public(t, err)
	if got, err := read(t.Context(), s, "a"); err != nil || got != "1" {
		t.Errorf("read %q, %v", got, err)
	}
}
