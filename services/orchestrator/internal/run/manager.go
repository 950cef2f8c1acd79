package run

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Price is what a model costs, in millionths of the pricing currency for a million tokens.
type Price struct{ InputMicros, OutputMicros int64 }

func (p Price) cost(u *threadv1.Usage) int64 {
	return (u.GetInputTokens()*p.InputMicros + u.GetOutputTokens()*p.OutputMicros) / 1_000_000
}

// Config are the settings of a manager.
type Config struct {
	// MaxThreads bounds the threads that this replica works on at once.
	MaxThreads int
	// MaxThreadsPerUser bounds those of one user; 0: MaxThreads.
	MaxThreadsPerUser int
	// MaxQueue bounds the inputs that wait on one thread.
	MaxQueue int
	// ParallelTools bounds the calls of one step that run at once.
	ParallelTools int
	// InteractionLife is how long a question waits for an answer; 0: for ever.
	InteractionLife time.Duration
	ModelRetry      model.RetryPolicy
	ModelTimeouts   model.Timeouts
	Prices          map[string]Price
}

// Deps are what a manager works with.
type Deps struct {
	Owner   *journal.Owner
	Threads threadv1.ThreadServiceClient
	// Files takes large results. Nil: they stay whole.
	Files fsv1.FilesystemServiceClient
	// Tasks cancels children. Nil: there are none.
	Tasks  taskv1.TaskServiceClient
	Kits   Kits
	Models Models
	Issuer *credential.Issuer
	Log    *slog.Logger
	Now    func() time.Time
	// Tenant is told of the tenant of each thread that this replica works on; it returns at once. Nil: nobody is.
	Tenant func(tenant string)
}

// Manager keeps the actors of this replica.
type Manager struct {
	cfg     Config
	owner   *journal.Owner
	threads threadv1.ThreadServiceClient
	files   fsv1.FilesystemServiceClient
	tasks   taskv1.TaskServiceClient
	kits    Kits
	models  Models
	issuer  *credential.Issuer
	log     *slog.Logger
	now     func() time.Time
	tenant  func(string)

	// work holds every goroutine that works for an actor.
	work sync.WaitGroup
	// drain is closed when the replica stops taking work.
	drain chan struct{}
	quit  context.Context
	halt  context.CancelCauseFunc

	mu         sync.Mutex
	slots      map[identity.Thread]*slot
	changed    chan struct{}
	attributes map[string]map[string]string
	ended      map[string]*orchestratorv1.Run
	endedOrder []string
}

// slot is the place of a thread's actor.
type slot struct {
	actor *actor
	nudge chan struct{}
	fence bool
	// holds counts those who are about to post: the actor does not give the thread up while there are any.
	holds int
	// tried is closed when the first attempt to acquire the thread is over.
	tried chan struct{}
}

const (
	// keptRuns bounds the ended runs that are answered without the journal.
	keptRuns = 1024
	// keptAttributes bounds the calls whose attributes wait for their run.
	keptAttributes = 1024
)

// NewManager makes a manager.
func NewManager(cfg Config, deps Deps) *Manager {
	m := &Manager{
		cfg: cfg, owner: deps.Owner, threads: deps.Threads, files: deps.Files, tasks: deps.Tasks, kits: deps.Kits, models: deps.Models, issuer: deps.Issuer, log: deps.Log, now: deps.Now,
		drain: make(chan struct{}), slots: map[identity.Thread]*slot{}, changed: make(chan struct{}), attributes: map[string]map[string]string{}, ended: map[string]*orchestratorv1.Run{},
	}
	if m.tenant = deps.Tenant; m.tenant == nil {
		m.tenant = func(string) {}
	}
	m.quit, m.halt = context.WithCancelCause(context.Background())
	return m
}

// Start begins to look for threads that nobody looks after.
func (m *Manager) Start(context.Context) error {
	m.work.Go(m.claim)
	return nil
}

// Stop hands every thread over at its next step border, and at the end of ctx at once.
func (m *Manager) Stop(ctx context.Context) error {
	m.mu.Lock()
	select {
	case <-m.drain:
	default:
		close(m.drain)
	}
	for _, s := range m.slots {
		poke(s.nudge)
	}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { m.work.Wait(); close(done) }()
	select {
	case <-done:
		m.halt(nil)
		return nil
	case <-ctx.Done():
	}
	m.halt(journal.ErrLost)
	<-done
	return nil
}

// Wake sees to it that the thread of the identity has an actor that looks into its mailbox, here or on its present owner.
func (m *Manager) Wake(key identity.Thread) { m.wake(key, nil, false) }

// Take is [Manager.Wake] for a task's worker: it takes the thread from an owner that holds it without the task's lease.
func (m *Manager) Take(key identity.Thread) { m.wake(key, nil, true) }

func (m *Manager) wake(key identity.Thread, claimed *journal.Thread, fence bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slotOf(key, claimed, fence)
}

// slotOf finds or makes the slot of a thread and sees to it that its actor looks into the mailbox. Nil while the replica stops. The caller holds mu.
func (m *Manager) slotOf(key identity.Thread, claimed *journal.Thread, fence bool) *slot {
	select {
	case <-m.drain:
		if claimed != nil {
			m.work.Go(func() { _ = claimed.Release() })
		}
		return nil
	default:
	}
	if s := m.slots[key]; s != nil {
		s.fence = s.fence || fence
		poke(s.nudge)
		return s
	}
	m.tenant(key.Tenant)
	s := &slot{nudge: make(chan struct{}, 1), tried: make(chan struct{}), fence: fence}
	m.slots[key] = s
	m.work.Go(func() { m.keep(key, s, claimed) })
	return s
}

// reserve takes the thread for this replica before something is posted to it, so that the replica that was called does the work and can stream it: mail without
// an owner is anybody's. Where another replica has the thread, the mail is for that one. The returned function ends the reservation.
func (m *Manager) reserve(ctx context.Context, key identity.Thread) (posted func()) {
	m.mu.Lock()
	s := m.slotOf(key, nil, false)
	if s == nil {
		m.mu.Unlock()
		return func() {}
	}
	s.holds++
	m.mu.Unlock()
	select {
	case <-s.tried:
	case <-ctx.Done():
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.holds--
		poke(s.nudge)
		if m.slots[key] != s { // its actor gave up meanwhile
			m.slotOf(key, nil, false)
		}
	}
}

// held says whether somebody is about to post.
func (m *Manager) held(key identity.Thread) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[key]
	return s != nil && s.holds > 0
}

// attempted says that the attempt to acquire the thread is over. The caller holds mu.
func (s *slot) attempted() {
	select {
	case <-s.tried:
	default:
		close(s.tried)
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// keep runs actors for a thread until there is no mail that came while one was ending.
func (m *Manager) keep(key identity.Thread, s *slot, claimed *journal.Thread) {
	for {
		m.mu.Lock()
		fence := s.fence
		m.mu.Unlock()
		err := m.runActor(key, s, claimed, fence)
		claimed = nil
		m.mu.Lock()
		again := false
		select {
		case <-s.nudge: // mail came while the actor was ending
			again = err == nil && m.quit.Err() == nil
		default:
		}
		s.actor = nil
		if !again {
			delete(m.slots, key)
		}
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
		if !again {
			return
		}
	}
}

// runActor acquires the thread and works on it. A thread with a live owner elsewhere is left to it: it has the mail.
func (m *Manager) runActor(key identity.Thread, s *slot, thread *journal.Thread, fence bool) (err error) {
	defer func() {
		m.mu.Lock()
		s.attempted()
		m.mu.Unlock()
	}()
	ctx := identity.NewContext(m.quit, identity.Identity{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session, Scope: identity.ScopeSession})
	if thread == nil {
		if thread, err = m.owner.Acquire(ctx, fence); err != nil {
			if errdefs.ReasonOf(err) != "OWNED" && ctx.Err() == nil {
				m.log.Warn("a thread could not be acquired", "thread", key.Key(), "error", err)
			}
			return err
		}
	}
	stop := context.AfterFunc(m.quit, func() { thread.Abandon(journal.ErrLost) })
	defer stop()
	a := m.newActor(key, thread, m.drain, s.nudge)
	m.mu.Lock()
	s.actor = a
	s.attempted()
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	err = a.guarded()
	a.hub.close()
	m.letGo(key, thread, err)
	return err
}

// brokenPause keeps a thread on which work broke off from going round between replicas at full speed.
const brokenPause = 2 * time.Second

// letGo ends this replica's claim to a thread. One on which work broke off is given back after a while, so that the store can hand it to somebody.
func (m *Manager) letGo(key identity.Thread, thread *journal.Thread, err error) {
	defer thread.Abandon(errActorEnded)
	if err == nil || m.quit.Err() != nil || errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrLost) || errdefs.ReasonOf(err) == "FENCED" {
		return
	}
	m.log.Error("the work on a thread broke off", "thread", key.Key(), "error", err)
	timer := time.NewTimer(brokenPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.drain:
	case <-m.quit.Done():
	}
	thread.GiveUp()
}

var errActorEnded = errors.New("the actor of the thread has ended")

// present says whether the thread has a place on this replica, with a channel that is closed at the next change of any.
func (m *Manager) present(key identity.Thread) (bool, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slots[key] != nil, m.changed
}

// actorOf returns the actor of a thread on this replica, and a channel that is closed at the next change of any.
func (m *Manager) actorOf(key identity.Thread) (*actor, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.slots[key]; s != nil {
		return s.actor, m.changed
	}
	return nil, m.changed
}

// Load is how many threads this replica works on, and how many of them are the user's.
func (m *Manager) load(key identity.Thread) (all, user int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.slots {
		if k.Tenant == key.Tenant && k.Agent == key.Agent && k.User == key.User {
			user++
		}
	}
	return len(m.slots), user
}

// admit refuses a call when this replica has enough to do.
func (m *Manager) admit(key identity.Thread) error {
	if s, _ := m.actorOf(key); s != nil {
		return nil // the thread is here already; its queue has a bound of its own
	}
	all, user := m.load(key)
	perUser := m.cfg.MaxThreadsPerUser
	if perUser <= 0 {
		perUser = m.cfg.MaxThreads
	}
	switch {
	case all >= m.cfg.MaxThreads:
		return tooMany(m.cfg.MaxThreads, "replica")
	case user >= perUser:
		return tooMany(perUser, "user")
	}
	return nil
}

// claim takes threads whose owner died, for as long as there is room for them.
func (m *Manager) claim() {
	ctx, cancel := context.WithCancel(m.quit)
	defer cancel()
	go func() {
		select {
		case <-m.drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	const wait, minPause, maxPause, most = 10 * time.Second, 200 * time.Millisecond, 2 * time.Second, 16
	pause := minPause
	for ctx.Err() == nil {
		all, _ := m.load(identity.Thread{})
		room := min(m.cfg.MaxThreads-all, most)
		if room > 0 {
			claims, hold, err := m.owner.Claim(ctx, int32(room), wait)
			for _, c := range claims {
				key := ThreadOf(c.GetHead().GetThread())
				id := identity.Identity{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session, Scope: identity.ScopeSession}
				m.wake(key, hold(identity.NewContext(m.quit, id), c), false)
			}
			if err == nil {
				pause = minPause
				continue
			}
			switch {
			case errdefs.ReasonOf(err) == "OWNER_EXPIRED": // its first heartbeat is on its way
				pause = minPause / 4
			case ctx.Err() == nil:
				pause = min(2*pause, maxPause)
				m.log.Warn("looking for threads without an owner failed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// remember keeps an ended run, for those who ask soon.
func (m *Manager) remember(r *loop.Run, id identity.Identity) {
	key, err := id.Thread()
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := key.Key() + "\x00" + r.ID
	if _, ok := m.ended[at]; !ok {
		m.endedOrder = append(m.endedOrder, at)
	}
	m.ended[at] = runView(r, threadProto(key))
	if len(m.endedOrder) > keptRuns {
		delete(m.ended, m.endedOrder[0])
		m.endedOrder = m.endedOrder[1:]
	}
}

// keepAttributes holds the attributes of a call until its run starts here; they are never persisted.
func (m *Manager) keepAttributes(run string, attributes map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(attributes) > 0 && len(m.attributes) < keptAttributes {
		m.attributes[run] = attributes
	}
}

func (m *Manager) takeAttributes(run string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.attributes[run]
	delete(m.attributes, run)
	return out
}

// modelName is the full name of a model, or the name as it was given when it can't be resolved: the request itself will say why.
func (m *Manager) modelName(ctx context.Context, name string) string {
	if r, err := m.models.Resolve(ctx, name); err == nil {
		return r.Ref
	}
	return name
}

func tooMany(limit int, scope string) error {
	return errdefs.New(errdefs.ErrResourceExhausted, Domain, "TOO_MANY_RUNS", "too much work is waiting or being done (%s: %d)", scope, limit).
		With("limit", itoa(limit)).With("scope", scope).RetryIn(time.Second)
}
