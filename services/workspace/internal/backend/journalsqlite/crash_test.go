package journalsqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// crashEnv names the file of the child process that is killed.
const crashEnv = "GANTRY_TEST_JOURNAL_CRASH"

const (
	crashWriters = 8
	// batchEvents is what every batch of the child holds: with one consumed message and one new one, the parts that must come together.
	batchEvents = 3
)

func crashThread(i int) identity.Thread {
	return identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: fmt.Sprint("s", i)}
}

// crashChild is the child: it commits from several goroutines until it is killed, and prints each batch after it was acknowledged. It reports
// whether this process is one.
func crashChild() bool {
	path := os.Getenv(crashEnv)
	if path == "" {
		return false
	}
	ctx := context.Background()
	store, err := journalsqlite.Open(ctx, journalsqlite.Config{Path: path})
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
	for i := range crashWriters {
		wait.Go(func() {
			t := crashThread(i)
			claim, err := store.Acquire(ctx, t, journal.Owner{ID: boot}, true)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for n := claim.Head.Seq / batchEvents; ; n++ {
				b := journal.Batch{Owner: boot, Epoch: claim.Head.Epoch, ID: fmt.Sprint(n), Expected: n * batchEvents}
				for k := range batchEvents {
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

// TestKill kills a process in the middle of commits, again and again on one file: what was acknowledged is there, and no batch is there in part.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	acknowledged := make([]int64, crashWriters)
	for i := range acknowledged {
		acknowledged[i] = -1
	}
	total := 0
	for round := range 5 {
		total += killOnce(t, path, 200+150*round, acknowledged)
		checkCrash(t, path, acknowledged)
	}
	t.Logf("%d batches acknowledged over 5 kills, none lost, none in part", total)
}

// killOnce runs the child until it has acknowledged n batches.
func killOnce(t *testing.T, path string, n int, acknowledged []int64) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
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

func checkCrash(t *testing.T, path string, acknowledged []int64) {
	t.Helper()
	store, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, last := range acknowledged {
		key := crashThread(i)
		var n int64
		head, _, err := journal.Scan(t.Context(), store, key, 0, 0, nil, func(e journal.Event) error {
			want := fmt.Sprintf("%d/%d/%d ", i, n/batchEvents, n%batchEvents)
			if !strings.HasPrefix(string(e.Payload), want) {
				return fmt.Errorf("event %d begins with %.20q, want %q", e.Seq, e.Payload, want)
			}
			n++
			return nil
		})
		if err != nil {
			t.Fatalf("thread %d: %v", i, err)
		}
		if n != head.Seq || n%batchEvents != 0 || n/batchEvents <= last {
			t.Fatalf("thread %d has %d events, head %d; batch %d was acknowledged", i, n, head.Seq, last)
		}
		mail, err := store.ListMail(t.Context(), key, 10, true)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint("m", n/batchEvents-1); len(mail) != 1 || mail[0].ID != want {
			t.Fatalf("thread %d has the mail %v, want %s alone", i, mail, want)
		}
	}
}

// TestTornTail cuts the end of the write-ahead log, as a machine that stops while it writes may: the store opens with whole batches up to there.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	killOnce(t, path, 300, make([]int64, crashWriters))
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 100, 4096, 5000, len(wal) / 3} {
		copied := filepath.Join(dir, fmt.Sprint("cut", cut), "journal.db")
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			t.Fatal(err)
		}
		torn := append(append([]byte(nil), wal[:len(wal)-cut]...), []byte("rest of a frame")...)
		for name, data := range map[string][]byte{copied: db, copied + "-wal": torn} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		checkTorn(t, copied)
	}
}

// checkTorn checks that every thread that is there is whole.
func checkTorn(t *testing.T, path string) {
	t.Helper()
	store, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: path, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	heads, _, err := store.List(t.Context(), journal.UserOf(crashThread(0)), 100, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		n := int64(0)
		if _, _, err := journal.Scan(t.Context(), store, h.Thread, 0, 0, nil, func(journal.Event) error { n++; return nil }); err != nil {
			t.Fatalf("%s: %v", h.Thread, err)
		}
		if n%batchEvents != 0 || n != h.Seq {
			t.Errorf("%s has %d events, head %d", h.Thread, n, h.Seq)
		}
	}
}
