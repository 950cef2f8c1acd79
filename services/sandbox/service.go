package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	workspacepb "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/backend/projector"
	"github.com/gantry-agents/gantry/services/sandbox/internal/rpc"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Deps are what the service gets from outside. Nil means the default.
type Deps struct {
	// Workspace is the connection to the workspace service, for projection. Nil: nothing is projected.
	Workspace grpc.ClientConnInterface
	// Logger gets what happens to sandboxes. Nil: nothing is logged.
	Logger *slog.Logger
	// Now is the clock. Nil: the real one.
	Now func() time.Time
}

// Service is the sandbox service.
type Service struct {
	manager *sandbox.Manager
	rpc     *rpc.Server
	lock    *os.File
	release bool
}

// New builds the service and takes its directory. Another process that has it is FAILED_PRECONDITION/STATE_IN_USE.
func New(_ context.Context, cfg Config, deps Deps) (_ *Service, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	list, err := drivers(cfg)
	if err != nil {
		return nil, fmt.Errorf("sandbox: drivers: %w", err)
	}
	store, err := snapshots(cfg)
	if err != nil {
		return nil, fmt.Errorf("sandbox: snapshots: %w", err)
	}
	var p sandbox.Projector
	if deps.Workspace != nil {
		p = projector.New(workspacepb.NewWorkspaceServiceClient(deps.Workspace), filepath.Join(cfg.Dir, "blobs"))
	}
	m := sandbox.NewManager(list, store, p, cfg.settings(), deps.Logger, deps.Now)
	return &Service{manager: m, rpc: rpc.New(m, deps.Now), lock: lock, release: cfg.ReleaseOnStop}, nil
}

// lockDir makes the directory and takes it for this process.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sandbox: state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonStateInUse,
			"another process of the sandbox service has %s; stop it, or use another dir", dir).With("directory", dir)
	}
	return f, nil
}

// Register adds SandboxService and FilesystemService.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	s.RegisterSandbox(r)
	fspb.RegisterFilesystemServiceServer(r, s.Files())
}

// RegisterSandbox adds SandboxService alone, for servers where another FilesystemService is registered.
func (s *Service) RegisterSandbox(r grpc.ServiceRegistrar) { pb.RegisterSandboxServiceServer(r, s.rpc) }

// Files is the FilesystemService for the files inside.
func (s *Service) Files() fspb.FilesystemServiceServer { return rpc.NewFiles(s.rpc) }

// Start adopts the sandboxes that an earlier process has left, and looks after all of them from then on.
func (s *Service) Start(ctx context.Context) error { return s.manager.Start(ctx) }

// Stop lets go of the sandboxes, which go on under their supervisors, and of the directory. Where the settings say so, unused ones are saved and taken down.
func (s *Service) Stop(ctx context.Context) error {
	var err error
	if s.release {
		err = s.manager.RetireUnused(ctx)
	}
	return errors.Join(err, s.manager.Stop(ctx), s.lock.Close())
}
