package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// files is a suite that runs in this process, and the command line on the files of one user.
type files struct {
	t    *testing.T
	addr string
	user string
	// imports is a directory below which workspaces may be imported.
	imports string
}

// newFiles starts a suite with the agent "store", whose files are all the workspace service's.
func newFiles(t *testing.T) *files {
	t.Helper()
	agents := t.TempDir()
	writeLocal(t, agents, "store/agent.yaml", "filesystem_mode: store\n")
	writeLocal(t, agents, "store/AGENTS.md", "shared rules\n")
	cfg := suite.DefaultConfig()
	cfg.Data, cfg.Workspaces, cfg.Model, cfg.Ollama, cfg.Address, cfg.HTTPAddress = t.TempDir(), agents, "offline", "none", "127.0.0.1:0", ""
	cfg.ImportDirs = []string{t.TempDir()}
	s, err := suite.Start(t.Context(), cfg, suite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return &files{t: t, addr: s.Address(), user: "ana", imports: cfg.ImportDirs[0]}
}

// env is an environment of a command.
func (f *files) command(ctx context.Context, env *Env, args ...string) int {
	all := append([]string{"fs", args[0], "--addr=" + f.addr, "--agent=store", "--user=" + f.user}, args[1:]...)
	return Main(ctx, all, env)
}

// fs runs a command of gantry fs.
func (f *files) fs(in string, args ...string) (code int, out, errs string) {
	f.t.Helper()
	var o, e bytes.Buffer
	code = f.command(f.t.Context(), &Env{In: strings.NewReader(in), Out: &o, Err: &e, Version: "test"}, args...)
	return code, o.String(), e.String()
}

// ok runs a command that must succeed and say nothing beside its output.
func (f *files) ok(in string, args ...string) string {
	f.t.Helper()
	code, out, errs := f.fs(in, args...)
	if code != ExitOK || errs != "" {
		f.t.Fatalf("gantry fs %q: code %d, %s%s", args, code, out, errs)
	}
	return out
}

// refused runs a command that must fail in one line which says all the texts.
func (f *files) refused(args []string, texts ...string) {
	f.t.Helper()
	code, out, errs := f.fs("", args...)
	if code != ExitFailed || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "gantry: ") {
		f.t.Errorf("gantry fs %q: code %d, %s%s", args, code, out, errs)
	}
	for _, text := range texts {
		if !strings.Contains(errs, text) {
			f.t.Errorf("gantry fs %q does not say %q: %s", args, text, errs)
		}
	}
}

// terminal is a writer that a person looks at.
type terminal struct{ bytes.Buffer }

func (*terminal) IsTerminal() bool { return true }

func writeLocal(t testing.TB, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// localTree is what a directory holds: contents by path, and of links where they lead.
func localTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if entry.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(name)
			out[filepath.ToSlash(rel)] = "-> " + to
			return err
		}
		text, err := os.ReadFile(name)
		out[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// broken is an input that ends with an error after some bytes.
type broken struct{ left int }

func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("the pipe broke")
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

// zeros is an input of so many bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
