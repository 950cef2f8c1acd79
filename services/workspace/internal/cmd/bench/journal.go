package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	shortThread, longThread = 10, 100_000
	fewThreads, manyThreads = 10, 10_000
	growthRounds            = 200
)

func openJournalSQLite(b *bench) journal.Store {
	s, err := journalsqlite.Open(b.ctx, journalsqlite.Config{Path: filepath.Join(b.TempDir(), "journal.db")})
	b.must(err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// writer commits to one thread.
type writer struct {
	b      *bench
	store  journal.Store
	thread identity.Thread
	owner  journal.Owner
	epoch  int64
	seq    int64
	n      int
}

func newWriter(b *bench, store journal.Store, session string, owner journal.Owner) *writer {
	w := &writer{b: b, store: store, owner: owner, thread: identity.Thread{Tenant: "default", Agent: "coder", User: "ana", Session: session}}
	w.beat()
	claim, err := store.Acquire(b.ctx, w.thread, owner, false)
	b.must(err)
	w.epoch, w.seq = claim.Head.Epoch, claim.Head.Seq
	return w
}

func (w *writer) beat() {
	_, err := w.store.Heartbeat(w.b.ctx, w.owner, false)
	w.b.must(err)
}

// commit appends events of 500 bytes. Their type is "" for usual ones.
func (w *writer) commit(events int, kind string) {
	if kind == "" {
		kind = "message/added"
	}
	w.n++
	batch := journal.Batch{Owner: w.owner.ID, Epoch: w.epoch, ID: fmt.Sprintf("batch%d", w.n), Expected: w.seq}
	for i := range events {
		batch.Events = append(batch.Events, journal.Event{Schema: 1, ID: fmt.Sprintf("e%d-%d", w.n, i), Type: kind, Payload: []byte(strings.Repeat("x", 500))})
	}
	_, err := w.store.Commit(w.b.ctx, w.thread, batch)
	w.b.must(err)
	w.seq += int64(events)
}

// keepAlive sends the heartbeats of an owner until the part ends. One that does not arrive fails the commits of the owner.
func keepAlive(b *bench, store journal.Store, owner journal.Owner) {
	ctx, cancel := context.WithCancel(b.ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		beat := time.NewTicker(400 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				_, _ = store.Heartbeat(ctx, owner, false)
			}
		}
	})
	b.Cleanup(func() {
		cancel()
		wait.Wait()
	})
}

// fill makes a thread long, with a checkpoint near the end.
func (w *writer) fill(events int) {
	for left := events - 5; left > 0; left -= 200 {
		w.commit(min(left, 200), "")
	}
	w.commit(1, journal.TypeCheckpoint)
	w.commit(4, "")
}

// open reads what a take-over reads.
func (w *writer) open(ctx context.Context) {
	head, err := w.store.Head(ctx, w.thread)
	w.b.must(err)
	_, err = w.store.Read(ctx, w.thread, journal.ReadRequest{After: head.CheckpointSeq - 1, Limit: 5})
	w.b.must(err)
}

// journalGrowth shows that a commit and an open cost the same in a long thread, and a heartbeat the same with many threads.
func journalGrowth(b *bench, name string, store journal.Store) {
	owner := journal.Owner{ID: "growth/1"}
	short, long := newWriter(b, store, "short", owner), newWriter(b, store, "long", owner)
	keepAlive(b, store, owner)
	short.fill(shortThread)
	long.fill(b.size(longThread))
	times := map[string][]time.Duration{}
	for range growthRounds {
		times["commit short"] = append(times["commit short"], measure.Timed(func() { short.commit(1, "") }))
		times["commit long"] = append(times["commit long"], measure.Timed(func() { long.commit(1, "") }))
		times["open short"] = append(times["open short"], measure.Timed(func() { short.open(b.ctx) }))
		times["open long"] = append(times["open long"], measure.Timed(func() { long.open(b.ctx) }))
	}
	for _, what := range []string{"commit", "open"} {
		base, took := measure.Median(times[what+" short"]), measure.Median(times[what+" long"])
		ratio := float64(took) / float64(base)
		b.say("journal-%s: %s at %d events %.3f ms, at %d events %.3f ms, ratio %.2f", name, what, shortThread, measure.Milliseconds(base), b.size(longThread), measure.Milliseconds(took), ratio)
		b.report.AtMost("journal_"+name+"_"+what+"_growth_ratio", measure.Round2(ratio), 1.3)
	}
	heartbeats(b, name, store)
}

// heartbeats compares one heartbeat of an owner of many threads with that of an owner of few.
func heartbeats(b *bench, name string, store journal.Store) {
	few, many := journal.Owner{ID: "few/1"}, journal.Owner{ID: "many/1"}
	beat := func(owner journal.Owner) func() {
		return func() {
			_, err := store.Heartbeat(b.ctx, owner, false)
			b.must(err)
		}
	}
	for i := range fewThreads {
		newWriter(b, store, fmt.Sprintf("few-%d", i), few)
	}
	for i := range b.size(manyThreads) {
		newWriter(b, store, fmt.Sprintf("many-%d", i), many)
		if i%10 == 0 {
			beat(few)() // an owner that says nothing is given up soon
		}
	}
	base, took := measure.Turns(50, beat(few), beat(many))
	ratio := float64(took) / float64(base)
	b.say("journal-%s: heartbeat with %d threads %.3f ms, with %d %.3f ms, ratio %.2f", name, fewThreads, measure.Milliseconds(base), b.size(manyThreads), measure.Milliseconds(took), ratio)
	b.report.AtMost("journal_"+name+"_heartbeat_growth_ratio", measure.Round2(ratio), 1.3)
}
