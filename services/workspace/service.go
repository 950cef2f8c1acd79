package workspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/filesystem"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/thread"
	workspacerpc "github.com/gantry-agents/gantry/services/workspace/internal/rpc/workspace"
	"github.com/gantry-agents/gantry/services/workspace/internal/templates"
)

// Deps are what the service needs of its surroundings. The service calls no other one.
type Deps struct {
	// Logger gets what nobody waits for. Nil: none.
	Logger *slog.Logger
	// Clock is the store's clock. Nil: the machine's.
	Clock func() time.Time
}

// Service is the workspace service.
type Service struct {
	store     files.Store
	journal   journal.Store
	templates *templates.Templates
	callers   *caller.Resolver
	// importDirs are the directories below which workspaces may be imported.
	importDirs []string
}

// New opens the stores and builds the service. When it fails nothing is left open. A Service that is never started is released by Stop.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	clocks := deps
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	workspace, root, agents, err := cfg.directories()
	if err != nil {
		return nil, fmt.Errorf("workspace directories: %w", err)
	}
	importDirs, err := cfg.importDirs()
	if err != nil {
		return nil, fmt.Errorf("import directories: %w", err)
	}
	layout := templates.Config{Workspace: workspace, Root: root, Agents: agents}
	s := &Service{importDirs: importDirs}
	if s.store, err = openStore(ctx, cfg, mounts(layout), deps); err != nil {
		return nil, err
	}
	if (cfg.uses(BackendRedis) || cfg.uses(BackendObject)) && cfg.journalBackend() == BackendSQLite {
		deps.Logger.InfoContext(ctx, "files are kept on a store that takes files only: the journal stays in a database, and so do the tasks of the task service", "files", cfg.Backend, "journal", cfg.Data)
	}
	// A journal on a server goes by that one's clock, unless the caller has one.
	if s.journal, err = openJournal(ctx, cfg, clocks); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.templates = templates.New(layout, s.store)
	s.callers = &caller.Resolver{
		Store: s.store, Templates: s.templates, Now: deps.Clock, Limits: files.Limits{Bytes: cfg.MaxBytes, Files: cfg.MaxFiles, FileBytes: cfg.MaxFile},
	}
	return s, nil
}

// mounts are the buckets of scope agent of the default tenant: each is the workspace directory of its agent. Agents below a common root are found when
// the service starts.
func mounts(layout templates.Config) map[files.Space]string {
	out := map[files.Space]string{}
	add := func(agent, dir string) {
		out[files.BucketSpace(identity.Bucket{Tenant: identity.DefaultTenant, Scope: identity.ScopeAgent, Agent: agent})] = dir
	}
	if layout.Root != "" {
		// A root that can't be read gives no mounts; its agents have no template either.
		entries, _ := os.ReadDir(layout.Root)
		for _, e := range entries {
			if id, ok := templates.AgentOf(e.Name()); ok && e.IsDir() {
				add(id, filepath.Join(layout.Root, e.Name()))
			}
		}
	}
	add(identity.DefaultAgent, layout.Workspace)
	for agent, dir := range layout.Agents {
		add(agent, dir)
	}
	return out
}

// Register adds the RPCs of files, workspaces and threads.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	s.RegisterFilesystem(r)
	s.RegisterOthers(r)
}

// RegisterFilesystem adds the RPCs of files alone: in one process, the orchestrator's router serves them to clients, and this service to the router.
func (s *Service) RegisterFilesystem(r grpc.ServiceRegistrar) {
	filesystemv1.RegisterFilesystemServiceServer(r, filesystem.New(s.callers))
}

// RegisterOthers adds the RPCs of workspaces and threads, without those of files.
func (s *Service) RegisterOthers(r grpc.ServiceRegistrar) {
	workspacev1.RegisterWorkspaceServiceServer(r, workspacerpc.New(s.callers, s.journal, s.importDirs))
	threadv1.RegisterThreadServiceServer(r, thread.New(s.journal))
}

// Start returns at once: the stores are open since New.
func (s *Service) Start(context.Context) error { return nil }

// Stop closes the stores, after the changes in work.
func (s *Service) Stop(context.Context) error {
	return errors.Join(s.journal.Close(), s.store.Close(), s.templates.Close())
}
