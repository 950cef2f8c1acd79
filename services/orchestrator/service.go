package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/lifecycle"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/kit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/localconn"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/mcp"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/models"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/router"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/rpc"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/worker"
)

// Deps are what the service needs of others. It closes none of them. Connections must send the identity of the context along, as those of package client do.
type Deps struct {
	// Workspace leads to WorkspaceService and FilesystemService. Required.
	Workspace grpc.ClientConnInterface
	// Threads leads to the ThreadService. Nil: Workspace.
	Threads grpc.ClientConnInterface
	// Memory, Sandbox and Tasks lead to those services. Nil: agents lack their tools.
	Memory, Sandbox, Tasks grpc.ClientConnInterface
	// DialFiles connects to a FilesystemService that an agent names. Nil: agents may not name one.
	DialFiles func(address string) (grpc.ClientConnInterface, error)
	// Models holds the providers. Nil: those that the settings name.
	Models *model.Registry
	// Prices by full model name, for budgets of cost. Nil: nothing is priced.
	Prices map[string]Price
	// Minter signs the capabilities of runs. Nil: calls to other services carry none.
	Minter *access.Minter
	// Logger gets the log. Nil: none.
	Logger *slog.Logger
	// Clock is the time. Nil: the system's.
	Clock func() time.Time
}

// Price is what a model costs, in millionths of the pricing currency for a million tokens.
type Price = run.Price

// Service is the orchestrator.
type Service struct {
	cfg    Config
	log    *slog.Logger
	models *models.Models
	rpc    *rpc.Server
	files  *router.Router
	mcp    *mcp.Pool
	parts  *lifecycle.Group
}

// New builds the service. It opens nothing; it calls nobody before Start.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Workspace == nil {
		return nil, errors.New("orchestrator: a connection to the workspace service is required")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	if deps.Models == nil {
		var err error
		if deps.Models, err = providers(cfg); err != nil {
			return nil, err
		}
	}
	return build(cfg, deps), nil
}

// build wires the parts.
func build(cfg Config, deps Deps) *Service {
	issuer := credential.NewIssuer(deps.Minter, deps.Clock)
	if deps.Threads == nil {
		deps.Threads = deps.Workspace
	}
	threads := threadv1.NewThreadServiceClient(credential.Conn(deps.Threads, issuer))
	workspace := credential.Conn(deps.Workspace, issuer)
	s := kit.Services{
		Workspace: workspacev1.NewWorkspaceServiceClient(workspace), Files: fsv1.NewFilesystemServiceClient(workspace), Threads: threads, LocalShell: cfg.LocalShell, Now: deps.Clock,
	}
	s.Loader = definition.NewLoader(s.Workspace, s.Files)
	if deps.Memory != nil {
		s.Memory = memoryv1.NewMemoryServiceClient(credential.Conn(deps.Memory, issuer))
	}
	if deps.Tasks != nil {
		s.Tasks = taskv1.NewTaskServiceClient(credential.Conn(deps.Tasks, issuer))
	}
	inside := s.Files
	if deps.Sandbox != nil {
		conn := credential.Conn(deps.Sandbox, issuer)
		s.Sandbox, inside = sandboxv1.NewSandboxServiceClient(conn), fsv1.NewFilesystemServiceClient(conn)
	}
	if deps.DialFiles != nil {
		s.DialFiles = func(address string) (fsv1.FilesystemServiceClient, error) {
			conn, err := deps.DialFiles(address)
			if err != nil {
				return nil, err
			}
			return fsv1.NewFilesystemServiceClient(credential.Conn(conn, issuer)), nil
		}
	}
	// Inside a run the kit knows the mode; for clients of the router it follows from the agent.
	s.Routed = fsv1.NewFilesystemServiceClient(localconn.New(&fsv1.FilesystemService_ServiceDesc,
		router.New(s.Files, inside, func(context.Context) (router.Mode, error) { return router.Sandbox, nil })))
	s.MCP = mcp.New(mcp.Config{
		Commands: cfg.MCPCommands, Private: cfg.MCPPrivate, Variables: cfg.MCPVariables, MaxConnections: cfg.MCPConnections, Idle: cfg.MCPIdle,
		Start: cfg.MCPStartTimeout, Call: cfg.MCPCallTimeout, Log: deps.Logger, Now: deps.Clock,
	})
	kits := kit.New(s)
	out := &Service{cfg: cfg, mcp: s.MCP, log: deps.Logger, models: models.New(deps.Models, cfg.Model, deps.Clock), parts: &lifecycle.Group{}}
	// What clients ask for themselves goes on under their own credential: the services hold them to it, as if they had called directly.
	own, ownInside := fsv1.NewFilesystemServiceClient(deps.Workspace), fsv1.NewFilesystemServiceClient(deps.Workspace)
	if deps.Sandbox != nil {
		ownInside = fsv1.NewFilesystemServiceClient(deps.Sandbox)
	}
	out.files = router.New(own, ownInside, func(ctx context.Context) (router.Mode, error) {
		sandbox, err := kits.HasSandbox(ctx)
		if sandbox {
			return router.Sandbox, err
		}
		return router.Store, err
	})
	out.run(deps, s, kits, issuer)
	return out
}

// run adds what works in the background.
func (s *Service) run(deps Deps, services kit.Services, kits *kit.Kits, issuer *credential.Issuer) {
	cfg := s.cfg
	owner := journal.NewOwner(services.Threads, journal.Config{Replica: cfg.replica(), Address: cfg.Advertise, Log: deps.Logger})
	var tasks *worker.Worker
	runs := run.NewManager(run.Config{
		MaxThreads: cfg.MaxThreads, MaxThreadsPerUser: cfg.MaxThreadsPerUser, MaxQueue: cfg.MaxQueue, ParallelTools: cfg.ParallelTools, CheckpointEvery: cfg.CheckpointEvery,
		InteractionLife: cfg.InteractionLife, ModelRetry: cfg.retry(), ModelTimeouts: cfg.timeouts(), Prices: deps.Prices,
	}, run.Deps{
		Owner: owner, Threads: services.Threads, Files: services.Files, Tasks: services.Tasks, Kits: kits, Models: s.models, Issuer: issuer, Log: deps.Logger, Now: deps.Clock,
		Tenant: func(tenant string) {
			if tasks != nil {
				tasks.Meet(tenant)
			}
		},
	})
	s.rpc = rpc.New(rpc.Deps{
		Runs: runs, Kits: kits, Loader: services.Loader, Models: s.models, Threads: services.Threads, Workspace: workspacev1.NewWorkspaceServiceClient(deps.Workspace), Files: services.Files,
		Tasks: services.Tasks, Log: deps.Logger, Now: deps.Clock,
	})
	s.parts.Add(lifecycle.Part{Name: "mcp", Stop: s.mcp.Stop})
	// The owner outlives the runs: they commit until the end.
	s.parts.Add(lifecycle.Part{Name: "owner", Start: owner.Start, Stop: owner.Stop})
	s.parts.Add(lifecycle.Part{Name: "runs", Start: runs.Start, Stop: runs.Stop, StopTimeout: cfg.DrainTimeout})
	if services.Tasks != nil {
		tasks = worker.New(worker.Config{Replica: cfg.replica(), MaxTasks: cfg.MaxTasks, Tenants: cfg.Tenants, Log: deps.Logger}, services.Tasks, services.Threads, runs)
		s.parts.Add(lifecycle.Part{Name: "worker", Start: tasks.Start, Stop: tasks.Stop})
	}
}

// Register adds the service's RPCs, and those of the router over workspace and sandbox.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	s.rpc.Register(r)
	fsv1.RegisterFilesystemServiceServer(r, s.files)
}

// Start chooses the default model, says so, and begins to work. Services that it calls need not be there yet.
func (s *Service) Start(ctx context.Context) error {
	chosen, err := s.models.Default(ctx)
	if err != nil {
		return err
	}
	s.log.InfoContext(ctx, "default model", "model", chosen.Ref.String(), "why", chosen.Reason)
	return s.parts.Start(ctx)
}

// Stop hands every run over at its next step border, and ends. Runs that do not get there in time are left to other replicas where they are.
func (s *Service) Stop(ctx context.Context) error { return s.parts.Stop(ctx) }
