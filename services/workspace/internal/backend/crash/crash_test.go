package crash

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	childEnv = "GANTRY_CRASH_CHILD" // backend and directory, or URL, of a process that writes until it is killed
	size     = 400_000
	kills    = 6
	space    = files.Space("default/user/coder/ana")
)

func TestMain(m *testing.M) {
	if backend, dir, ok := strings.Cut(os.Getenv(childEnv), " "); ok {
		if err := child(backend, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func open(ctx context.Context, backend, dir string) (files.Store, error) {
	switch backend {
	case "local":
		return local.Open(ctx, local.Config{Dir: dir, History: files.DefaultHistory()}, time.Now)
	case "redis":
		return redis.Open(ctx, redis.Config{URL: dir}, time.Now)
	case "object":
		return object.Open(ctx, object.Config{URL: dir}, time.Now)
	}
	return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "files.db"), History: files.DefaultHistory()}, time.Now)
}

// child changes files for ever and says what was acknowledged: one line a round.
func child(backend, dir string) error {
	ctx := context.Background()
	store, err := open(ctx, backend, dir)
	if err != nil {
		return err
	}
	view := files.NewView(store, space, nil, files.Limits{}, time.Now)
	write := func(name, content string) error {
		staged, err := store.Stage(ctx, strings.NewReader(content), 0)
		if err != nil {
			return err
		}
		_, err = view.Write(ctx, files.Call{Author: "child"}, files.Write{Path: fsops.PathOf(name)}, staged)
		return err
	}
	start := time.Now().UnixNano()
	for n := start; ; n++ {
		if err := write("big", strings.Repeat(string(rune('A'+n%26)), size)); err != nil {
			return err
		}
		if _, err := view.Append(ctx, files.Call{Author: "child"}, fsops.PathOf("log"), fmt.Appendf(nil, "%d\n", n), false); err != nil {
			return err
		}
		if err := write(fmt.Sprintf("new/%d", n), "x"); err != nil {
			return err
		}
		if _, err := view.Move(ctx, files.Call{Author: "child"}, files.Move{From: fsops.PathOf(fmt.Sprintf("new/%d", n)), To: fsops.PathOf(fmt.Sprintf("kept/%d", n))}); err != nil {
			return err
		}
		if err := apply(ctx, view, n); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// TestKill kills a writing process again and again: what it acknowledged is there, and no file is half old and half new.
func TestKill(t *testing.T) {
	for backend, place := range map[string]func(testing.TB) string{
		"local": testing.TB.TempDir, "sqlite": testing.TB.TempDir, "redis": testkit.Redis, "object": testkit.S3,
	} {
		t.Run(backend, func(t *testing.T) {
			dir := place(t)
			var acknowledged []string
			for range kills {
				acknowledged = append(acknowledged, runAndKill(t, backend, dir)...)
				check(t, backend, dir, acknowledged)
			}
			if len(acknowledged) < kills {
				t.Errorf("only %d rounds were acknowledged", len(acknowledged))
			}
			t.Logf("%d kills, %d acknowledged rounds", kills, len(acknowledged))
		})
	}
}

// runAndKill returns what the process acknowledged before it was killed.
func runAndKill(t *testing.T, backend, dir string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+backend+" "+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	scanner := bufio.NewScanner(out)
	rounds := 1 + rand.IntN(6)
	for scanner.Scan() {
		if lines = append(lines, scanner.Text()); len(lines) == rounds {
			// Somewhere in the round after this one.
			time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || len(lines) < rounds {
		t.Fatalf("the process ended by itself after %d rounds: %v", len(lines), err)
	}
	return lines
}

func check(t *testing.T, backend, dir string, acknowledged []string) {
	t.Helper()
	store, err := open(t.Context(), backend, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	view := files.NewView(store, space, nil, files.Limits{}, time.Now)
	_, big, err := view.ReadAll(t.Context(), fsops.PathOf("big"), 1<<20)
	if err != nil || len(big) != size || strings.Trim(string(big), string(big[0])) != "" {
		t.Fatalf("the big file has %d bytes, or is a mix: %v", len(big), err)
	}
	checkSets(t, store, view)
	e, err := view.Stat(t.Context(), fsops.PathOf("big"))
	if err != nil || e.Author != "child" {
		t.Errorf("the big file was written by %q, %v", e.Author, err)
	}
	_, log, err := view.ReadAll(t.Context(), fsops.PathOf("log"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int{}
	for _, line := range strings.Split(strings.TrimSuffix(string(log), "\n"), "\n") {
		have[line]++
	}
	for _, n := range acknowledged {
		if have[n] != 1 {
			t.Errorf("line %s of the log is there %d times", n, have[n])
		}
		if _, err := view.Stat(t.Context(), fsops.PathOf("kept/"+n)); err != nil {
			t.Errorf("kept/%s: %v", n, err)
		}
		if _, err := view.Stat(t.Context(), fsops.PathOf("new/"+n)); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
			t.Errorf("new/%s is still there after its move: %v", n, err)
		}
	}
	for line, n := range have {
		if n != 1 || len(line) != len(acknowledged[0]) {
			t.Errorf("the log has the line %q %d times", line, n)
		}
	}
}
