package storetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// crashEnv tells a test binary that it is the child which is killed, and where its store is.
const crashEnv = "GANTRY_TEST_JOURNAL_CRASH"

// Opener opens the store at a place: a file, or the DSN of a database.
type Opener func(ctx context.Context, place string) (journal.Store, error)

const (
	// CrashWriters is the number of threads that the child commits to.
	CrashWriters = 8
	// CrashEvents is what every batch of the child holds: with one consumed message and one new one, the parts that must come together.
	CrashEvents = 3
)

// CrashThread is one of the threads that the child commits to.
func CrashThread(i int) identity.Thread {
	return identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: fmt.Sprint("s", i)}
}

// CrashChild is the child of [Kill], for TestMain: it commits from several goroutines until it is killed, and prints each batch after it was acknowledged. It reports
// whether this process is one.
func CrashChild(open Opener) bool {
	path := os.Getenv(crashEnv)
	if path == "" {
		return false
	}
	ctx := context.Background()
	store, err := open(ctx, path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	boot := fmt.Sprint("child/", os.Getpid())
	if _, err := store.Heartbeat(ctx, journal.Owner{ID: boot}, false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var out sync.Mutex
	var wait sync.WaitGroup
	for i := range CrashWriters {
		wait.Go(func() {
			t := CrashThread(i)
			claim, err := store.Acquire(ctx, t, journal.Owner{ID: boot}, true)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for n := claim.Head.Seq / CrashEvents; ; n++ {
				b := journal.Batch{Owner: boot, Epoch: claim.Head.Epoch, ID: fmt.Sprint(n), Expected: n * CrashEvents}
				for k := range CrashEvents {
					// Every tenth batch has a payload that is kept as a blob.
					size := 200
					if n%10 == 0 && k == 1 {
						size = journal.InlinePayloadBytes + 1
					}
					text := fmt.Sprintf("%d/%d/%d %s", i, n, k, strings.Repeat("x", size))
					b.Events = append(b.Events, journal.Event{Schema: 1, ID: fmt.Sprint(n, ".", k), Type: "t", Payload: []byte(text)})
				}
				if n > 0 {
					b.Consume = []string{fmt.Sprint("m", n-1)}
				}
				b.Mail = []journal.Mail{{ID: fmt.Sprint("m", n), Kind: "expiry"}}
				if _, err := store.Commit(ctx, t, b); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println(i, n)
				out.Unlock()
			}
		})
	}
	wait.Wait()
	return true
}

// Kill kills a process in the middle of commits, again and again on one store: what was acknowledged is there, and no batch is there in part.
func Kill(t *testing.T, place string, open Opener) {
	acknowledged := make([]int64, CrashWriters)
	for i := range acknowledged {
		acknowledged[i] = -1
	}
	total := 0
	for round := range 5 {
		total += KillOnce(t, place, 200+150*round, acknowledged)
		checkCrash(t, place, open, acknowledged)
	}
	t.Logf("%d batches acknowledged over 5 kills, none lost, none in part", total)
}

// KillOnce runs the child until it has acknowledged n batches, and notes the last one of each thread.
func KillOnce(t *testing.T, place string, n int, acknowledged []int64) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+place)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, seen := bufio.NewScanner(out), 0
	for lines.Scan() {
		var i int
		var batch int64
		if _, err := fmt.Sscan(lines.Text(), &i, &batch); err != nil {
			continue // The kill cut the line.
		}
		acknowledged[i] = max(acknowledged[i], batch)
		if seen++; seen == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if seen < n {
		t.Fatalf("the child ended by itself after %d batches", seen)
	}
	return seen
}

func checkCrash(t *testing.T, place string, open Opener, acknowledged []int64) {
	t.Helper()
	store, err := open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, last := range acknowledged {
		// A database may still be at a commit whose writer is dead: what it does then is whole by itself.
		testkit.Eventually(t, crashSettles, func() error { return checkThread(t.Context(), store, i, last) })
	}
}

// crashSettles bounds the time that a database may still work for a dead process.
const crashSettles = 10 * time.Second

func checkThread(ctx context.Context, store journal.Store, i int, last int64) error {
	key := CrashThread(i)
	var n int64
	head, _, err := journal.Scan(ctx, store, key, 0, 0, nil, func(e journal.Event) error {
		want := fmt.Sprintf("%d/%d/%d ", i, n/CrashEvents, n%CrashEvents)
		if !strings.HasPrefix(string(e.Payload), want) {
			return fmt.Errorf("event %d begins with %.20q, want %q", e.Seq, e.Payload, want)
		}
		n++
		return nil
	})
	if err != nil {
		return fmt.Errorf("thread %d: %w", i, err)
	}
	if n != head.Seq || n%CrashEvents != 0 || n/CrashEvents <= last {
		return fmt.Errorf("thread %d has %d events, head %d; batch %d was acknowledged", i, n, head.Seq, last)
	}
	mail, err := store.ListMail(ctx, key, 10, true)
	if err != nil {
		return err
	}
	var ids, want []string
	for _, m := range mail {
		ids = append(ids, m.ID)
	}
	if n > 0 { // a thread whose writer had no turn has none
		want = []string{fmt.Sprint("m", n/CrashEvents-1)}
	}
	if !slices.Equal(ids, want) {
		return fmt.Errorf("thread %d has the mail %q, want %q", i, ids, want)
	}
	return nil
}
