package memory

import (
	"context"
	"errors"
	"log/slog"
	"time"
	_ "time/tzdata" // ledgers need the zones of users, and an image without files has none

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
	"github.com/gantry-agents/gantry/services/memory/internal/remote"
	"github.com/gantry-agents/gantry/services/memory/internal/rpc"
)

// Deps are what the service needs of others. It closes none of them.
type Deps struct {
	// Filesystem leads to the FilesystemService of the buckets. Required. It must send the identity of the context along, as connections of package client do.
	Filesystem grpc.ClientConnInterface
	// Threads leads to the ThreadService. Nil: threads can be neither searched nor flushed.
	Threads grpc.ClientConnInterface
	// Model extracts and consolidates; ModelName is the name that it knows. Nil: the one that the settings name, else rules do.
	Model     model.Provider
	ModelName string
	// Logger gets warnings. Nil: none.
	Logger *slog.Logger
	// Clock is the one clock of ledgers. Nil: the system's.
	Clock func() time.Time
}

// Service is the memory service.
type Service struct {
	pool *pool.Pool
	rpc  *rpc.Server
}

// New builds the service. It opens nothing before it is called.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Filesystem == nil {
		return nil, errors.New("memory: a connection to a FilesystemService is required")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	if deps.Model == nil {
		var err error
		if deps.Model, deps.ModelName, err = provider(cfg); err != nil {
			return nil, err
		}
	}
	if deps.Model != nil && model.Unwrap(deps.Model).Name() == model.OfflineName {
		deps.Model = nil // it has no model to ask: its rules are the ones that are used here without one
	}
	zone, err := time.LoadLocation(cfg.TimeZone)
	if err != nil {
		return nil, err
	}
	indexes := pool.New(indexBackends[cfg.Index](cfg), cfg.IndexMemoryBytes, deps.Logger)
	opts := memory.Options{
		Files: remote.NewFiles(deps.Filesystem), Pool: indexes, Model: deps.Model, ModelName: deps.ModelName, ModelTimeout: cfg.ModelTimeout,
		Zone: zone, BudgetTokens: cfg.BudgetTokens, Versions: cfg.Versions, SyncTime: cfg.SyncTime, Now: deps.Clock, Log: deps.Logger,
	}
	if deps.Threads != nil {
		opts.Threads = remote.NewThreads(deps.Threads)
	}
	return &Service{pool: indexes, rpc: rpc.NewServer(memory.New(opts))}, nil
}

// Register adds the service's RPCs.
func (s *Service) Register(r grpc.ServiceRegistrar) { s.rpc.Register(r) }

// Start returns at once: indexes are opened when they are needed.
func (s *Service) Start(context.Context) error { return nil }

// Stop waits for calls that use an index and closes every index. It may be called twice, and before Start.
func (s *Service) Stop(ctx context.Context) error { return s.pool.Close(ctx) }
