package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/config"
)

// Config holds the settings of the task service.
type Config struct {
	Store         string        `name:"store" help:"Where tasks are kept: sqlite (one file, one process)." enum:"sqlite" default:"sqlite"`
	Database      string        `name:"database" help:"File of the sqlite store." default:"./.gantry/task/tasks.db"`
	Threads       string        `name:"threads" help:"Address of the ThreadService, to whose mailboxes results are posted." default:"127.0.0.1:7402"`
	ThreadsToken  config.Secret `name:"threads-token" help:"Bearer token for those calls, where the ThreadService wants one."`
	LivePerOwner  int           `name:"live-per-owner" help:"Tasks of one user with one agent that have not ended, at most." default:"10000"`
	LivePerTenant int           `name:"live-per-tenant" help:"Tasks of one tenant that have not ended, at most." default:"1000000"`
	Schedules     int           `name:"schedules-per-owner" help:"Schedules of one user with one agent, at most." default:"100"`
	MaxDepth      int           `name:"max-depth" help:"How deeply tasks may be nested below the topmost one." default:"8"`
	MaxAttempts   int           `name:"max-attempts" help:"Attempts of a task that states none." default:"3"`
	BackoffFirst  time.Duration `name:"backoff-first" help:"Wait after the first failed attempt of a task that states none." default:"1s"`
	BackoffMax    time.Duration `name:"backoff-max" help:"Longest wait between attempts of a task that states none." default:"5m"`
	CancelGrace   time.Duration `name:"cancel-grace" help:"How long a worker may take to stop after a cancel, before the task is ended without it." default:"30s"`
	RetryAfter    time.Duration `name:"retry-after" help:"When to come again, told to callers that a full queue refuses." default:"5s"`
	MaxWaiters    int           `name:"max-waiters" help:"Calls that wait (long polls and watches) at most." default:"10000"`
	RetainAge     time.Duration `name:"retain-age" help:"How long tasks are kept after they ended. 0: for ever." default:"720h"`
	RetainCount   int           `name:"retain-count" help:"Ended tasks kept for one user with one agent. 0: all." default:"10000"`
	RetainChanges time.Duration `name:"retain-changes" help:"How long a watch can go back. 0: for ever." default:"168h"`
	RetainEvery   time.Duration `name:"retain-every" help:"How often retention is applied." default:"1h"`
	PostFirst     time.Duration `name:"post-first-wait" help:"Wait after the first failed attempt to deliver a result." default:"200ms"`
	PostMax       time.Duration `name:"post-max-wait" help:"Longest wait between attempts to deliver a result." default:"30s"`
}

// DefaultConfig returns the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{
		Store: "sqlite", Database: "./.gantry/task/tasks.db", Threads: "127.0.0.1:7402", LivePerOwner: 10_000, LivePerTenant: 1_000_000, Schedules: 100,
		MaxDepth: 8, MaxAttempts: 3, BackoffFirst: time.Second, BackoffMax: 5 * time.Minute, CancelGrace: 30 * time.Second, RetryAfter: 5 * time.Second,
		MaxWaiters: 10_000, RetainAge: 720 * time.Hour, RetainCount: 10_000, RetainChanges: 168 * time.Hour, RetainEvery: time.Hour,
		PostFirst: 200 * time.Millisecond, PostMax: 30 * time.Second,
	}
}

// Validate checks the settings. All that is wrong is in the error.
func (c Config) Validate() error {
	var errs []error
	if _, ok := backends[c.Store]; !ok {
		errs = append(errs, fmt.Errorf("task: store is %q, not one of sqlite", c.Store))
	}
	if c.Database == "" {
		errs = append(errs, errors.New("task: database is empty"))
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"live-per-owner", c.LivePerOwner}, {"live-per-tenant", c.LivePerTenant}, {"schedules-per-owner", c.Schedules}, {"max-attempts", c.MaxAttempts}, {"max-waiters", c.MaxWaiters},
	} {
		if f.value < 1 {
			errs = append(errs, fmt.Errorf("task: %s is %d, at least 1 is needed", f.name, f.value))
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"backoff-first", c.BackoffFirst}, {"backoff-max", c.BackoffMax}, {"cancel-grace", c.CancelGrace}, {"retry-after", c.RetryAfter},
		{"retain-every", c.RetainEvery}, {"post-first-wait", c.PostFirst}, {"post-max-wait", c.PostMax},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("task: %s is %s, it must be positive", f.name, f.value))
		}
	}
	if c.MaxDepth < 0 || c.RetainAge < 0 || c.RetainCount < 0 || c.RetainChanges < 0 {
		errs = append(errs, errors.New("task: max-depth, retain-age, retain-count and retain-changes must not be negative"))
	}
	return errors.Join(errs...)
}
