package task

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
	_ "time/tzdata" // schedules need the zones of users, and an image without files has none

	"google.golang.org/grpc"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/task/internal/courier"
	"github.com/gantry-agents/gantry/services/task/internal/keeper"
	"github.com/gantry-agents/gantry/services/task/internal/poll"
	"github.com/gantry-agents/gantry/services/task/internal/rpc"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// Deps are what the service needs of others. It closes none of them.
type Deps struct {
	// Threads leads to the ThreadService. It must send the identity of the context along, as connections of package client do. Nil: results wait in the outbox until a service that has
	// one is started on the same store.
	Threads grpc.ClientConnInterface
	// Token returns the credential for posting to threads of a tenant. Nil: that of the settings, else none.
	Token func(ctx context.Context, tenant string) (string, error)
	// Logger gets warnings. Nil: none.
	Logger *slog.Logger
	// Clock is the store's clock, where the store has none of its own. Nil: the machine's.
	Clock func() time.Time
}

// Service is the task service.
type Service struct {
	store   task.Store
	hub     *poll.Hub
	rpc     *rpc.Server
	loops   []func(context.Context)
	unheard []func()

	mu      sync.Mutex
	cancel  context.CancelFunc
	running sync.WaitGroup
	stopped bool
}

// New builds the service and opens its store. When it fails nothing is left open. A Service that is never started is released by Stop.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	if token := cfg.ThreadsToken.Reveal(); deps.Token == nil && token != "" {
		deps.Token = func(context.Context, string) (string, error) { return token, nil }
	}
	store, err := backends[cfg.Store](ctx, cfg, deps.Clock)
	if err != nil {
		return nil, err
	}
	engine := task.NewEngine(store, task.Limits{
		LivePerOwner: cfg.LivePerOwner, LivePerTenant: cfg.LivePerTenant, SchedulesPerOwner: cfg.Schedules, MaxDepth: cfg.MaxDepth, MaxAttempts: cfg.MaxAttempts,
		Backoff: task.Backoff{Initial: cfg.BackoffFirst, Max: cfg.BackoffMax}, CancelGrace: cfg.CancelGrace, RetryAfter: cfg.RetryAfter,
	}, rpc.EncodeDelivery)
	hub := poll.New(cfg.MaxWaiters)
	s := &Service{store: store, hub: hub, rpc: rpc.New(engine, hub)}
	s.hear(hub.Signal)

	k := keeper.New(engine, task.Retention{Age: cfg.RetainAge, Count: cfg.RetainCount, Changes: cfg.RetainChanges}, cfg.RetainEvery, deps.Logger)
	s.hear(k.Signal)
	s.loops = append(s.loops, k.Run)
	if deps.Threads == nil {
		deps.Logger.Warn("no thread service: results are kept and not delivered")
		return s, nil
	}
	c := courier.New(engine, threadv1.NewThreadServiceClient(deps.Threads), courier.Options{
		FirstWait: cfg.PostFirst, MaxWait: cfg.PostMax, Token: deps.Token, Log: deps.Logger,
	})
	s.hear(c.Signal)
	s.loops = append(s.loops, c.Run)
	return s, nil
}

// hear registers a listener of the store.
func (s *Service) hear(fn func(task.Signal)) { s.unheard = append(s.unheard, s.store.Listen(fn)) }

// Register adds the service's RPCs.
func (s *Service) Register(r grpc.ServiceRegistrar) { s.rpc.Register(r) }

// Start lets time happen and results be delivered. It returns at once.
func (s *Service) Start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return errors.New("task: stopped before it was started")
	case s.cancel != nil:
		return errors.New("task: started already")
	}
	// The context of Start ends with starting; the loops end with Stop.
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, loop := range s.loops {
		s.running.Go(func() { loop(ctx) })
	}
	return nil
}

// Drain makes calls that wait answer with what there is: long polls come back empty, watches end with their last message. Who stops a server gracefully calls it first, since
// the server waits for its calls. Stop does it too.
func (s *Service) Drain() { s.hub.Close() }

// Stop ends waits and loops and closes the store. What was acknowledged is kept; what was under way goes on with the next start. It may be called twice, and before Start.
func (s *Service) Stop(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		// The store must not be closed under a loop that still uses it.
		return ctx.Err()
	}
	for _, stop := range s.unheard {
		stop()
	}
	return s.store.Close()
}
