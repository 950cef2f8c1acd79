package run

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const (
	// pollInterval is how often the mailbox is looked into while a model or a tool works: mail of other replicas comes without a nudge.
	pollInterval = 500 * time.Millisecond
	// gatherResults is how long a result may wait for others of its step before it is committed alone.
	gatherResults = 300 * time.Millisecond
)

// actor works on one thread for as long as there is something to do. Its fields belong to its goroutine, but for those that say otherwise.
type actor struct {
	m      *Manager
	key    identity.Thread
	thread *journal.Thread
	state  *loop.Thread
	hub    *hub
	log    *slog.Logger

	// nudge says that there is mail. Capacity one. Any goroutine.
	nudge chan struct{}
	// drain is closed when the replica shuts down: the actor hands the thread over at the next step border.
	drain <-chan struct{}
	// view is the open or latest run as GetRun shows it. Any goroutine.
	view atomic.Pointer[orchestratorv1.Run]
	// shown is the state that tools and compilations may read. Any goroutine.
	shown atomic.Pointer[snapshot]

	batch    journal.Batch
	numbers  int
	saved    int64     // the last checkpoint, or the last try
	stagedAt time.Time // of the oldest staged event that may wait
	marked   threadv1.RunState

	mail    map[string]*threadv1.Mail
	mailNew bool // the mailbox must be listed

	kit        Kit
	identity   identity.Identity
	bucket     identity.Bucket
	child      *Child
	call       *orchestratorv1.RunInput
	credential *credential.Credential

	model     *modelFlight
	modelNews chan modelNews
	tools     map[string]*toolFlight
	toolNews  chan toolNews
	forced    bool         // a compaction was forced in this step
	past      *loop.Thread // what the thread is moved back to
}

// open restores the thread's state from its journal.
func (m *Manager) newActor(key identity.Thread, thread *journal.Thread, drain <-chan struct{}, nudge chan struct{}) *actor {
	return &actor{
		m: m, key: key, thread: thread, state: &loop.Thread{}, log: m.log.With("thread", key.Key()), nudge: nudge, drain: drain,
		mail: map[string]*threadv1.Mail{}, mailNew: true, modelNews: make(chan modelNews, 16), tools: map[string]*toolFlight{}, toolNews: make(chan toolNews, 16),
		hub: newHub(), identity: identity.Identity{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session},
	}
}

// context is that of calls on behalf of the run: it ends when the thread is lost.
func (a *actor) context() context.Context {
	return credential.NewContext(a.withIdentity(a.identity), a.credential)
}

// withIdentity is the thread's context with an identity, and with the run's bucket where that does not follow from it.
func (a *actor) withIdentity(id identity.Identity) context.Context {
	ctx := identity.NewContext(a.thread.Context(), id)
	if a.bucket != (identity.Bucket{}) {
		ctx = identity.NewBucketContext(ctx, a.bucket)
	}
	return ctx
}

// restore reads the journal from its last checkpoint on and takes over the run that it finds open.
func (a *actor) restore() error {
	opened, err := checkpoint.Open(a.context(), a.m.threads, 0, a.log)
	if err != nil && !notFound(err) {
		return err
	}
	a.state, a.saved = opened.Thread, opened.CheckpointSeq
	if a.state.Seq != a.thread.Seq() {
		return journalGap(a.state.Seq, a.thread.Seq())
	}
	a.show()
	r := a.state.Run
	if r == nil {
		return nil
	}
	a.marked = r.State
	if err := a.adopt(r); err != nil {
		if transient(err) {
			return err
		}
		return a.fail(err, "definition_invalid") // what the run was started with can't be had any more
	}
	if r.State != threadv1.RunState_RUN_STATE_RUNNING {
		return nil
	}
	return a.takeOver()
}

// guarded is work that survives a fault of its own: the thread is given to somebody else.
func (a *actor) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errdefs.New(errdefs.ErrInternal, Domain, "", "the actor panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return a.work()
}

// work drives the thread until nothing is left to do. An error is the loss of the thread, or a fault; what was journaled stays, and another owner goes on.
func (a *actor) work() error {
	defer a.stopFlights(journal.ErrLost)
	if err := a.restore(); err != nil {
		return err
	}
	for {
		if err := a.takeMail(); err != nil {
			return err
		}
		facts := a.facts()
		if a.state.Stopping(facts) {
			a.stopFlights(errStopped)
		}
		act := a.state.Next(facts)
		done, err := a.do(act)
		if err != nil || done {
			return err
		}
	}
}

func (a *actor) facts() loop.Facts {
	return loop.Facts{Now: a.m.now(), Parallel: a.m.cfg.ParallelTools, Safe: func(name string) bool {
		if a.kit == nil {
			return false
		}
		t, ok := a.kit.Tool(name)
		return ok && t.Spec().ConcurrencySafe
	}}
}

// do executes one action. done says that the thread was given up.
func (a *actor) do(act loop.Action) (done bool, err error) {
	switch act.Kind {
	case loop.Idle:
		return a.idle()
	case loop.Prepare:
		if a.draining() {
			return true, a.handOver()
		}
		return false, a.prepare(act)
	case loop.AwaitModel:
		if a.model == nil {
			return false, a.resend()
		}
		return false, a.wait()
	case loop.Decide:
		return false, a.decide(act.Calls)
	case loop.Close:
		return false, a.closeCalls(act)
	case loop.Dispatch:
		if a.draining() {
			return true, a.handOver()
		}
		return false, a.dispatch(act.Calls)
	case loop.AwaitTools:
		return false, a.wait()
	case loop.Suspend:
		return false, a.suspend(act)
	default:
		return false, a.end(act.End)
	}
}

// wait commits what may not wait longer and sleeps until something happens.
func (a *actor) wait() error {
	var gather <-chan time.Time
	if n := len(a.batch.Events) + len(a.batch.Consumed); n > 0 {
		left := gatherResults - a.m.now().Sub(a.stagedAt)
		if a.stagedAt.IsZero() || left <= 0 {
			if err := a.flush(false); err != nil {
				return err
			}
		} else {
			timer := time.NewTimer(left)
			defer timer.Stop()
			gather = timer.C
		}
	}
	poll := time.NewTimer(pollInterval)
	defer poll.Stop()
	select {
	case <-a.thread.Context().Done():
		return context.Cause(a.thread.Context())
	case news := <-a.modelNews:
		return a.modelTold(news)
	case news := <-a.toolNews:
		return a.toolTold(news)
	case <-a.nudge:
		a.mailNew = true
	case <-poll.C:
		a.mailNew = true
	case <-gather:
	}
	return nil
}

// idle gives the thread up, unless mail came while it was being given up.
func (a *actor) idle() (done bool, err error) {
	if a.draining() {
		return true, a.handOver()
	}
	if len(a.batch.Events)+len(a.batch.Consumed) > 0 {
		return false, a.flush(false)
	}
	select {
	case <-a.nudge:
		a.mailNew = true
		return false, nil
	default:
	}
	if a.m.held(a.key) {
		return false, a.wait()
	}
	return true, a.thread.Release()
}

func (a *actor) draining() bool {
	select {
	case <-a.drain:
		return true
	default:
		return false
	}
}

// handOver gives the thread up with its run open, so that another replica goes on with it.
func (a *actor) handOver() error {
	return a.flush(true)
}

// errStopped is the cause of the end of what works when the run stops: a cancel, an interrupt, a budget.
var errStopped = tool.ErrStopped

// stopFlights ends the model request and the calls that work.
func (a *actor) stopFlights(cause error) {
	if a.model != nil {
		a.model.cancel(cause)
	}
	for _, f := range a.tools {
		f.cancel(cause)
	}
}
