package journalpostgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// lengths are those between which the cost of a commit and of opening a thread must not grow.
var lengths = []int{10, 100_000}

// goroutines that commit at the same time.
const together = 32

// row is what the baseline inserts: the payload and the ids of one small event.
const row = "INSERT INTO bare (id, kind, run, payload) VALUES ($1, $2, $3, $4)"

// bare is the baseline's table on the same server.
func bare(b *testing.B, dsn string) *pgxpool.Pool {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), "CREATE TABLE IF NOT EXISTS bare (id BIGINT PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, payload BYTEA NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	return pool
}

var payload = []byte(strings.Repeat("x", 200))

// long makes a thread of n events of 500 bytes, with a checkpoint near the end.
func long(b *testing.B, s journal.Store, n int) *writer {
	b.Helper()
	w := newWriter(b, s, named(fmt.Sprint("long", n)))
	for left := n - 5; left > 0; left -= 200 {
		payloads := make([]string, min(left, 200))
		for i := range payloads {
			payloads[i] = strings.Repeat("x", 500)
		}
		w.commit(b, payloads...)
	}
	checkpoint := w.batch("projection")
	checkpoint.Events[0].Type = journal.TypeCheckpoint
	if _, err := s.Commit(b.Context(), w.claim.Head.Thread, checkpoint); err != nil {
		b.Fatal(err)
	}
	w.commit(b, "a", "b", "c", "d")
	return w
}

// BenchmarkCommit is one durable commit of one event, alone, beside one durable INSERT of one row by the bare driver in turns with it.
func BenchmarkCommit(b *testing.B) {
	dsn := testkit.DurablePostgres(b)
	pool, s := bare(b, dsn), open(b, dsn, nil)
	id := 0
	for _, n := range lengths {
		w := long(b, s, n)
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			var own, baseline time.Duration
			for b.Loop() {
				begin := time.Now()
				w.commit(b, string(payload))
				middle := time.Now()
				id++
				if _, err := pool.Exec(b.Context(), row, id, "t", "", payload); err != nil {
					b.Fatal(err)
				}
				own, baseline = own+middle.Sub(begin), baseline+time.Since(middle)
			}
			b.ReportMetric(float64(own.Nanoseconds())/float64(b.N), "ns/commit")
			b.ReportMetric(float64(own)/float64(baseline), "x-bare-insert")
		})
	}
}

// BenchmarkCommitTogether is commits to different threads from 32 goroutines, beside the same number of rows that the bare driver inserts in groups: whatever waits, up to
// 32 rows, in one round trip and transaction.
func BenchmarkCommitTogether(b *testing.B) {
	dsn := testkit.DurablePostgres(b)
	pool, s := bare(b, dsn), open(b, dsn, nil)
	writers := make([]*writer, together)
	for i := range writers {
		writers[i] = newWriter(b, s, identity.Thread{Tenant: "t", Agent: "a", User: fmt.Sprint(i % 8), Session: fmt.Sprint(i)})
	}
	commits := func(n int) time.Duration { return share(n, func(i int) { writers[i].commit(b, string(payload)) }) }
	g := newGrouper(b, pool)
	inserts := func(n int) time.Duration { return share(n, func(int) { g.insert() }) }
	commits(together)
	inserts(together)
	var own, baseline time.Duration
	for b.Loop() {
		own += commits(10 * together)
		baseline += inserts(10 * together)
	}
	b.ReportMetric(float64(own.Nanoseconds())/float64(10*together*b.N), "ns/commit")
	b.ReportMetric(float64(baseline)/float64(own), "x-bare-throughput")
}

// share has the goroutines call f n times together.
func share(n int, f func(goroutine int)) time.Duration {
	begin := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{}, together)
	for i := range together {
		go func() {
			for left.Add(-1) >= 0 {
				f(i)
			}
			done <- struct{}{}
		}()
	}
	for range together {
		<-done
	}
	return time.Since(begin)
}

// grouper inserts rows in groups.
type grouper struct {
	rows chan chan error
}

func newGrouper(b *testing.B, pool *pgxpool.Pool) *grouper {
	g := &grouper{rows: make(chan chan error, together)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	b.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		id := 1 << 40
		for {
			var group []chan error
			select {
			case <-ctx.Done():
				return
			case c := <-g.rows:
				group = append(group, c)
			}
			for more := true; more && len(group) < together; {
				select {
				case c := <-g.rows:
					group = append(group, c)
				default:
					more = false
				}
			}
			var batch pgx.Batch
			for range group {
				id++
				batch.Queue(row, id, "t", "", payload)
			}
			err := pool.SendBatch(ctx, &batch).Close()
			for _, c := range group {
				c <- err
			}
		}
	}()
	return g
}

func (g *grouper) insert() {
	done := make(chan error, 1)
	g.rows <- done
	if err := <-done; err != nil {
		panic(err)
	}
}

// BenchmarkOpenThread is what a take-over reads: the head and the events from the last checkpoint on.
func BenchmarkOpenThread(b *testing.B) {
	s := open(b, testkit.DurablePostgres(b), nil)
	for _, n := range lengths {
		w := long(b, s, n)
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			for b.Loop() {
				h, err := s.Head(b.Context(), w.claim.Head.Thread)
				if err != nil {
					b.Fatal(err)
				}
				p, err := s.Read(b.Context(), w.claim.Head.Thread, journal.ReadRequest{After: h.CheckpointSeq - 1})
				if err != nil || len(p.Events) < 5 {
					b.Fatal(len(p.Events), err)
				}
			}
		})
	}
}

// BenchmarkHeartbeat is one heartbeat of an owner of many threads.
func BenchmarkHeartbeat(b *testing.B) {
	s := open(b, testkit.DurablePostgres(b), nil)
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint("threads=", n), func(b *testing.B) {
			owner := journal.Owner{ID: fmt.Sprint("r/", n)}
			ownMany(b, s, owner, n)
			for b.Loop() {
				if _, err := s.Heartbeat(b.Context(), owner, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
