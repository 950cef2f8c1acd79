package journalsqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// lengths are those between which the cost of a commit and of opening a thread must not grow.
var lengths = []int{10, 100_000}

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

// BenchmarkCommit is one durable commit of one event, alone.
func BenchmarkCommit(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			w := long(b, open(b, filepath.Join(b.TempDir(), "j.db"), nil), n)
			for b.Loop() {
				w.commit(b, "payload")
			}
		})
	}
}

// BenchmarkOpenThread is what a take-over reads: the head and the events from the last checkpoint on.
func BenchmarkOpenThread(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "j.db"), nil)
			w := long(b, s, n)
			for b.Loop() {
				h, err := s.Head(b.Context(), w.claim.Head.Thread)
				if err != nil {
					b.Fatal(err)
				}
				p, err := s.Read(b.Context(), w.claim.Head.Thread, journal.ReadRequest{After: h.CheckpointSeq - 1})
				if err != nil || len(p.Events) != 5 {
					b.Fatal(len(p.Events), err)
				}
			}
		})
	}
}

// BenchmarkCommitTogether is commits to many threads from 32 goroutines, which share transactions.
func BenchmarkCommitTogether(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "j.db"), nil)
	var n atomic.Int64
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		w := newWriter(b, s, identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: fmt.Sprint(n.Add(1))})
		for pb.Next() {
			w.commit(b, "payload")
		}
	})
}

// BenchmarkHeartbeat is one heartbeat of an owner of many threads.
func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint("threads=", n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "j.db"), nil)
			owner := journal.Owner{ID: "r/a"}
			for i := range n {
				if _, err := s.Heartbeat(b.Context(), owner, false); err != nil {
					b.Fatal(err)
				}
				c, err := s.Acquire(b.Context(), named(fmt.Sprint(i)), owner, false)
				if err != nil {
					b.Fatal(err)
				}
				batch := journal.Batch{Owner: owner.ID, Epoch: c.Head.Epoch, ID: "b", Expected: 0, Run: journal.Run{ID: "r", State: journal.RunRunning}}
				if _, err := s.Commit(b.Context(), named(fmt.Sprint(i)), batch); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := s.Heartbeat(b.Context(), owner, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
