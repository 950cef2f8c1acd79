package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalpostgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	commitRounds = 300
	// commitThreads commit at once where commits are grouped.
	commitThreads = 32
)

func openJournalPostgres(b *bench, dsn string) journal.Store {
	s, err := journalpostgres.Open(b.ctx, journalpostgres.Config{DSN: dsn})
	b.must(err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// journalPostgres compares a commit of one event with a bare durable insert of a row of its size, alone and from many threads at once.
func journalPostgres(b *bench) {
	dsn := testkit.DurablePostgres(b)
	store := openJournalPostgres(b, dsn)
	pool, err := pgxpool.New(b.ctx, dsn)
	b.must(err)
	b.Cleanup(pool.Close)
	_, err = pool.Exec(b.ctx, `CREATE TABLE bare_events (thread bigint, seq bigint, id text, type text, time bigint, payload bytea, PRIMARY KEY (thread, seq))`)
	b.must(err)

	w := newWriter(b, store, "alone", journal.Owner{ID: "bench/1"})
	var bases, times []time.Duration
	for n := range commitRounds {
		if n%50 == 0 {
			w.beat()
		}
		bases = append(bases, measure.Timed(func() { insert(b, pool, []row{{0, int64(n)}}) }))
		times = append(times, measure.Timed(func() { w.commit(1, "") }))
	}
	base, took := measure.Median(bases), measure.Median(times)
	ratio := float64(took) / float64(base)
	b.say("journal-postgres: bare durable insert %.3f ms, commit %.3f ms, ratio %.2f", measure.Milliseconds(base), measure.Milliseconds(took), ratio)
	b.report.AtMost("journal_postgres_commit_ratio", measure.Round2(ratio), 1.7)

	group := measure.NewGroup(commitThreads, func(rows []row) { insert(b, pool, rows) })
	b.Cleanup(group.Close)
	writers := make([]*writer, commitThreads)
	for i := range writers {
		writers[i] = newWriter(b, store, fmt.Sprintf("together%d", i), journal.Owner{ID: "bench/2"})
	}
	keepAlive(b, store, writers[0].owner)
	inserted := make([]int64, commitThreads)
	part, grouped, commits := measure.Rates(rateRounds, commitThreads, rateTime, func(c, _ int) {
		inserted[c]++
		group.Do(row{int64(c) + 1, inserted[c]})
	}, func(c, _ int) {
		writers[c].commit(1, "")
	})
	b.say("journal-postgres: %d threads: bare grouped inserts %.0f/s, commits %.0f/s, ratio %.2f", commitThreads, grouped, commits, part)
	b.report.AtLeast("journal_postgres_grouped_ratio", measure.Round2(part), 0.5)
	journalGrowth(b, "postgres", store)
}

// row is one row of the bare table.
type row struct{ thread, seq int64 }

// insert adds rows in one transaction and one round trip.
func insert(b *bench, pool *pgxpool.Pool, rows []row) {
	payload := []byte(strings.Repeat("x", 500))
	var batch pgx.Batch
	for _, r := range rows {
		batch.Queue(`INSERT INTO bare_events VALUES ($1, $2, $3, 'message/added', 0, $4)`, r.thread, r.seq, fmt.Sprintf("e%d-%d", r.thread, r.seq), payload)
	}
	b.must(pool.SendBatch(b.ctx, &batch).Close())
}
