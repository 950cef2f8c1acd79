package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/libs/testkit"
)

const (
	// stepsOfRun is how many steps with a tool call each run makes; the last answer is one more.
	stepsOfRun  = 20
	aloneRounds = 8
	// stepThreads work at once where commits are grouped.
	stepThreads = 32
	rateRounds  = 3
	rateTime    = 3 * time.Second
)

// stepsPostgres measures durable steps with the journal on PostgreSQL, behind a workspace service in a process of its own: what a commit costs the run beside a bare durable
// insert, and how many steps many threads make beside a library that journals steps, or where none can be had, beside bare inserts that are grouped.
func stepsPostgres(b *measure.B) {
	dsn := testkit.DurablePostgres(b)
	pool, err := pgxpool.New(b.Ctx, dsn)
	b.Must(err)
	b.Cleanup(pool.Close)
	_, err = pool.Exec(b.Ctx, `CREATE TABLE bare_events (thread bigint, seq bigint, id text, payload bytea, PRIMARY KEY (thread, seq))`)
	b.Must(err)
	meter, runs := serve(b, dsn, script())
	var sessions atomic.Int64
	run := func(thread string) {
		ctx := identity.NewContext(b.Ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: identity.DefaultAgent, User: thread, Session: fmt.Sprint(sessions.Add(1))})
		got, err := runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "go"}})
		b.Must(err)
		if got.GetRun().GetState() != threadv1.RunState_RUN_STATE_COMPLETED || got.GetRun().GetSteps() != stepsOfRun+1 {
			b.Fatalf("the run is %v after %d steps: %s", got.GetRun().GetState(), got.GetRun().GetSteps(), got.GetRun().GetMessage())
		}
	}

	run("warm")
	meter.take()
	var bases []time.Duration
	seq := int64(0)
	for range aloneRounds {
		run("alone")
		for range 2 * stepsOfRun {
			seq++
			bases = append(bases, measure.Timed(func() { insert(b, pool, []row{{0, seq}}) }))
		}
	}
	commits := meter.take()
	base, took := measure.Median(bases), measure.Median(commits)
	perStep := measure.Round2(float64(len(commits)) / (aloneRounds * (stepsOfRun + 1)))
	ratio := measure.Round2(float64(took) / float64(base))
	b.Say("steps-postgres: %.2f commits a step; bare durable insert %.3f ms, commit %.3f ms, ratio %.2f", perStep, measure.Milliseconds(base), measure.Milliseconds(took), ratio)
	b.Report.AtMost("step_commits", perStep, 3)
	b.Report.AtMost("step_commit_ratio", ratio, 1.7)

	group := measure.NewGroup(stepThreads, func(rows []row) { insert(b, pool, rows) })
	b.Cleanup(group.Close)
	inserted := make([]int64, stepThreads)
	part, grouped, made := measure.Rates(rateRounds, stepThreads, rateTime, func(c, _ int) {
		inserted[c]++
		group.Do(row{int64(c) + 1, inserted[c]})
	}, func(c, _ int) {
		run(fmt.Sprint("together", c))
	})
	part *= stepsOfRun + 1
	b.Say("steps-postgres: %d threads: bare grouped inserts %.0f/s, steps %.0f/s, ratio %.2f", stepThreads, grouped, made*(stepsOfRun+1), part)
	if besidePeer(b, dsn, run) {
		b.Report.Tell("steps_grouped_ratio", measure.Round2(part))
		return
	}
	b.Report.AtLeast("steps_grouped_ratio", measure.Round2(part), 0.3)
}

// script makes a call that does nothing in every step, each saying something new, and then says that it is done.
func script() string {
	var s strings.Builder
	s.WriteString("turns:\n")
	for i := range stepsOfRun {
		fmt.Fprintf(&s, "  - {always: true, when: {step: %d}, calls: [{name: todo_write, arguments: {todos: [{content: item %d}]}}]}\n", i+1, i)
	}
	fmt.Fprintf(&s, "  - {always: true, when: {step: %d}, text: done}\n", stepsOfRun+1)
	return s.String()
}

// row is one row of the bare table.
type row struct{ thread, seq int64 }

// insert adds rows in one transaction and one round trip.
func insert(b *measure.B, pool *pgxpool.Pool, rows []row) {
	payload := []byte(strings.Repeat("x", 500))
	var batch pgx.Batch
	for _, r := range rows {
		batch.Queue(`INSERT INTO bare_events VALUES ($1, $2, $3, $4)`, r.thread, r.seq, fmt.Sprintf("e%d-%d", r.thread, r.seq), payload)
	}
	b.Must(pool.SendBatch(context.WithoutCancel(b.Ctx), &batch).Close())
}
