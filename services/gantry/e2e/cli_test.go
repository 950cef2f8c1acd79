package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/gantry/e2e"
	"github.com/gantry-agents/gantry/services/gantry/internal/cli"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// asCLI makes this test binary the command line.
const asCLI = "GANTRY_TEST_AS_CLI"

func cliMain() int {
	return cli.Main(context.Background(), os.Args[1:], &cli.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: "test"})
}

// answer is what a command printed.
type answer struct {
	code        int
	out, errOut string
}

// gantry runs the command line as a process.
func gantry(t *testing.T, in string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env, cmd.Stdin = append(os.Environ(), asCLI+"=1"), strings.NewReader(in)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("gantry %q: %v", args, err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// refused holds an answer to what every error looks like: one readable line, on the standard error, with the reason and no more.
func (a answer) refused(t *testing.T, code int, texts ...string) {
	t.Helper()
	line, more, _ := strings.Cut(strings.TrimRight(a.errOut, "\n"), "\n")
	if a.code != code || !strings.HasPrefix(line, "gantry: ") || more != "" || len(line) > 600 {
		t.Errorf("exit code %d (want %d), standard error:\n%s", a.code, code, a.errOut)
	}
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("the line does not say %q: %s", text, line)
		}
	}
	for _, noise := range []string{"panic", "goroutine", "rpc error", "desc =", "0x"} {
		if strings.Contains(a.errOut, noise) {
			t.Errorf("the line has %q in it: %s", noise, a.errOut)
		}
	}
}

// open starts a suite without authentication on free ports, as `gantry up` does, with agents whose files are broken.
func open(t *testing.T) *suite.Suite {
	t.Helper()
	agents := e2e.Agents(t)
	for path, text := range map[string]string{
		"badtools/AGENTS.md": "You help.\n", "badtools/tools.json": "{\n  \"allow\": [\"read_file\",,]\n}\n",
		"badskill/AGENTS.md": "You help.\n", "badskill/skills/broken/SKILL.md": "---\nname: [unclosed\n---\nDo it.\n",
		"badchild/AGENTS.md": "You help.\n", "badchild/subagents/broken.md": "---\ndescription: x\nsteps: many\n---\nDo it.\n",
	} {
		path = filepath.Join(agents, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := suite.DefaultConfig()
	cfg.Data, cfg.Workspaces, cfg.Model, cfg.Ollama, cfg.Address, cfg.HTTPAddress = t.TempDir(), agents, "offline", "none", "127.0.0.1:0", ""
	s, err := suite.Start(t.Context(), cfg, suite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(s.Stop(ctx), procs.EndSandboxes(cfg.Data)); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestBadInput gives a running suite what it can't take.
func TestBadInput(t *testing.T) {
	s := open(t)
	const ok, failed, usage = cli.ExitOK, cli.ExitFailed, cli.ExitUsage
	tests := map[string]struct {
		in    string
		args  []string
		code  int
		texts []string
	}{
		"unknown agent":          {"", []string{"call", "--agent=nobody", "--user=ana", "hi"}, failed, []string{"nobody", "AGENT_NOT_FOUND"}},
		"user with a newline":    {"", []string{"call", "--agent=helper", "--user=a\nb", "hi"}, failed, []string{"user", "IDENTITY_MALFORMED"}},
		"user of 257 bytes":      {"", []string{"fs", "ls", "--agent=helper", "--user=" + strings.Repeat("a", 257)}, failed, []string{"user", "IDENTITY_MALFORMED"}},
		"files of nobody":        {"", []string{"fs", "ls", "--agent=helper"}, failed, []string{"IDENTITY_REQUIRED", "--user"}},
		"path above the root":    {"", []string{"fs", "cat", "--agent=helper", "--user=ana", "../../etc/passwd"}, failed, []string{"PATH_"}},
		"path of 5000 bytes":     {"x", []string{"fs", "put", "--agent=helper", "--user=ana", strings.Repeat("a/", 2500) + "long.txt", "-"}, failed, []string{"path"}},
		"file that is not there": {"", []string{"fs", "cat", "--agent=helper", "--user=ana", "nothing.txt"}, failed, []string{"nothing.txt", "PATH_NOT_FOUND"}},
		"glob that never ends":   {"", []string{"fs", "glob", "--agent=helper", "--user=ana", "[a"}, failed, []string{"PATTERN_"}},
		"grep that never ends":   {"", []string{"fs", "grep", "--regex", "--agent=helper", "--user=ana", "(a"}, failed, []string{"PATTERN_"}},
		"tools.json is broken":   {"", []string{"call", "--agent=badtools", "--user=ana", "hi"}, failed, []string{"tools.json:2", "DEFINITION_INVALID"}},
		"unknown model":          {"", []string{"call", "--agent=helper", "--user=ana", "--model=offline:gpt", "hi"}, failed, []string{"MODEL_NOT_FOUND", "gantry agents models"}},
		"message over 1 MiB":     {strings.Repeat("a", 1<<20+1), []string{"call", "--agent=helper", "--user=ana"}, failed, []string{"1048576"}},
		"message without text":   {" \n", []string{"call", "--agent=helper", "--user=ana"}, failed, []string{"TEXT_EMPTY"}},
		"run that is not there":  {"", []string{"run", "attach", "--agent=helper", "--user=ana", "--session=s", "r1"}, failed, []string{"NOT_FOUND"}},
		"task that is not there": {"", []string{"task", "show", "--agent=helper", "--user=ana", "t1"}, failed, []string{"TASK_NOT_FOUND"}},
		"unknown command":        {"", []string{"dance"}, usage, []string{"dance"}},
		"unknown flag":           {"", []string{"call", "--dance", "hi"}, usage, []string{"--dance"}},
		"unknown scope":          {"", []string{"call", "--scope=mine", "hi"}, usage, []string{"scope", "session"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := tt.args
			if tt.code == failed {
				args = append(args[:len(args):len(args)], "--addr="+s.Address())
			}
			got := gantry(t, tt.in, args...)
			got.refused(t, tt.code, tt.texts...)
			if got.out != "" {
				t.Errorf("it printed: %s", got.out)
			}
		})
	}
	t.Run("nothing was written", func(t *testing.T) {
		got := gantry(t, "", "fs", "glob", "--addr="+s.Address(), "--agent=helper", "--user=ana", "**/long.txt")
		if got.code != ok || strings.TrimSpace(got.out) != "" {
			t.Errorf("files: %s %s", got.out, got.errOut)
		}
	})
	// What is broken in a skill or a subagent leaves that one out, and the owner can see why.
	for agent, file := range map[string]string{"badskill": "skills/broken/SKILL.md", "badchild": "subagents/broken.md"} {
		t.Run("front matter of "+file, func(t *testing.T) {
			got := gantry(t, "", "agents", "show", "--addr="+s.Address(), agent)
			if got.code != ok || !strings.Contains(got.out, "problem: "+file+": ") {
				t.Errorf("exit code %d, %s %s", got.code, got.out, got.errOut)
			}
			if got := gantry(t, "", "call", "--addr="+s.Address(), "--agent="+agent, "--user=ana", "Say 'hello'"); got.code != ok {
				t.Errorf("a call of the agent: exit code %d, %s %s", got.code, got.out, got.errOut)
			}
		})
	}
}

// TestBadPlaces starts the suite where it can't work.
func TestBadPlaces(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	up := []string{"up", "--model=offline", "--ollama-url=none", "--log-level=warn", "--address=127.0.0.1:0", "--http-address=127.0.0.1:0"}
	tests := map[string]struct {
		args  []string
		code  int
		texts []string
	}{
		"the gRPC port is busy":     {append(up[:4:4], "--data="+t.TempDir(), "--address="+busy.Addr().String(), "--http-address="), cli.ExitFailed, []string{busy.Addr().String(), "in use"}},
		"the HTTP port is busy":     {append(up[:5:5], "--data="+t.TempDir(), "--http-address="+busy.Addr().String()), cli.ExitFailed, []string{busy.Addr().String(), "in use"}},
		"open to the world":         {append(up[:4:4], "--data="+t.TempDir(), "--address=0.0.0.0:0"), cli.ExitFailed, []string{"auth-mode"}},
		"the data is a file":        {append(up, "--data="+file), cli.ExitFailed, []string{file, "--data"}},
		"the data can't be written": {append(up, "--data=/proc/gantry"), cli.ExitFailed, []string{"/proc/gantry"}},
		"no such workspaces":        {append(up, "--data="+t.TempDir(), "--workspaces="+file+"s"), cli.ExitFailed, []string{file + "s"}},
		"nobody serves":             {[]string{"call", "--addr=127.0.0.1:1", "--user=ana", "hi"}, cli.ExitFailed, []string{"gantry up"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { gantry(t, "", tt.args...).refused(t, tt.code, tt.texts...) })
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 0 {
		t.Errorf("the file in the place of the data directory was changed: %v, %v", info, err)
	}
}

// tmpfs mounts a small file system for the test.
func tmpfs(t *testing.T, options string) string {
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

// TestFullAndReadOnlyDisks runs commands on data directories that take nothing any more.
func TestFullAndReadOnlyDisks(t *testing.T) {
	full := tmpfs(t, "size=16k")
	if err := os.WriteFile(filepath.Join(full, "fill"), make([]byte, 16<<10), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	gantry(t, "", "call", "--local", "--data="+full, "--user=ana", "hi").refused(t, cli.ExitFailed, full, "full")

	readOnly := tmpfs(t, "size=1m")
	if err := syscall.Mount("", readOnly, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=1m"); err != nil {
		t.Fatal(err)
	}
	gantry(t, "", "call", "--local", "--data="+readOnly, "--user=ana", "hi").refused(t, cli.ExitFailed, readOnly, "--data")

	// A disk that gets full while a file is written: an error, and no part of the file.
	small := tmpfs(t, "size=8m")
	got := gantry(t, strings.Repeat("0123456789abcdef", 1<<20), "fs", "put", "--local", "--data="+small, "--user=ana", "knowledge/big.txt", "-")
	got.refused(t, cli.ExitFailed, "no space left")
	err := filepath.WalkDir(small, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.Contains(entry.Name(), "big") {
			t.Errorf("a part of the file is left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := procs.EndSandboxes(small); err != nil {
		t.Error(err)
	}
}
