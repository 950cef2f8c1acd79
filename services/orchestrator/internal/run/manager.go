package run

import (
	"context"
	"log/slog"
	"sync"
	"time"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
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
	// CheckpointEvery is after how many events of a thread a checkpoint is written; 0: never.
	CheckpointEvery int
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

// load is how many threads this replica works on, and how many of them are the user's.
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
