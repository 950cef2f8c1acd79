package suite

import (
	"context"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/lifecycle"
	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/gateway"
	"github.com/gantry-agents/gantry/services/memory"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/sandbox"
	"github.com/gantry-agents/gantry/services/task"
	"github.com/gantry-agents/gantry/services/workspace"
)

// stopTimeout bounds the end of each part.
const stopTimeout = 10 * time.Second

// service is what every service's root package makes.
type service interface {
	Register(grpc.ServiceRegistrar)
	Start(context.Context) error
	Stop(context.Context) error
}

// build makes the services that are not replaced, in the order of who calls whom: each starts after those that it calls.
func (s *Suite) build(ctx context.Context, opts Options) error {
	var public []func(grpc.ServiceRegistrar)
	var drainers []run.Drainer
	for _, make := range []struct {
		name  string
		build func(context.Context) (service, error)
		// offer registers the service at the public address.
		offer func(service) func(grpc.ServiceRegistrar)
	}{
		{Workspace, s.workspace, withoutFiles},
		{Memory, s.memory, everything},
		{Sandbox, s.sandbox, withoutFiles},
		{Task, s.task, everything},
		{Orchestrator, s.orchestrator, everything},
	} {
		if _, replaced := opts.Replace[make.name]; replaced {
			continue
		}
		svc, err := make.build(ctx)
		if err != nil {
			return err
		}
		s.parts.Add(lifecycle.Part{Name: make.name, Start: svc.Start, Stop: svc.Stop, StopTimeout: stopTimeout})
		if _, err := s.serve("memory:"+make.name, svc.Register); err != nil {
			return err
		}
		public = append(public, make.offer(svc))
		if d, ok := svc.(run.Drainer); ok {
			drainers = append(drainers, d)
		}
	}
	if !opts.Private {
		if err := s.offer(ctx, public); err != nil {
			return err
		}
	}
	// Added last, so stopped first: servers wait for their calls, and some calls wait for the services.
	s.parts.Add(lifecycle.Part{Name: "drain", Stop: func(context.Context) error {
		for _, d := range drainers {
			d.Drain()
		}
		return nil
	}})
	return nil
}

func everything(svc service) func(grpc.ServiceRegistrar) { return svc.Register }

func withoutFiles(svc service) func(grpc.ServiceRegistrar) { return apartFromFiles(svc.Register) }

// offer adds the public servers.
func (s *Suite) offer(ctx context.Context, register []func(grpc.ServiceRegistrar)) (err error) {
	if s.public, err = s.serve(s.cfg.Address, register...); err != nil || s.cfg.HTTPAddress == "" {
		return err
	}
	cfg := gateway.DefaultConfig()
	cfg.HTTPAddress = s.cfg.HTTPAddress
	s.gateway, err = gateway.New(ctx, cfg, gateway.Deps{
		Orchestrator: s.conns[Orchestrator], Workspace: s.conns[Workspace], Threads: s.conns[Workspace],
		Memory: s.conns[Memory], Sandbox: s.conns[Sandbox], Tasks: s.conns[Task], Logger: s.log,
		Authenticated: s.cfg.Auth.Mode == access.ModeJWT,
	})
	if err != nil {
		return err
	}
	s.parts.Add(lifecycle.Part{Name: "gateway", Start: s.gateway.Start, Stop: s.gateway.Stop, StopTimeout: stopTimeout})
	return nil
}

func (s *Suite) workspace(ctx context.Context) (service, error) {
	cfg := workspace.DefaultConfig()
	cfg.Data, cfg.Backend = filepath.Join(s.cfg.Data, ".gantry-runtime"), s.cfg.Backend
	cfg.Workspace, cfg.Workspaces, cfg.ImportDirs = s.cfg.Workspace, s.cfg.Workspaces, s.cfg.ImportDirs
	return workspace.New(ctx, cfg, workspace.Deps{Logger: s.log})
}

func (s *Suite) memory(ctx context.Context) (service, error) {
	cfg := memory.DefaultConfig()
	cfg.IndexDir = filepath.Join(s.cfg.Data, "index")
	return memory.New(ctx, cfg, memory.Deps{Filesystem: s.conns[Workspace], Threads: s.conns[Workspace], Logger: s.log})
}

func (s *Suite) sandbox(ctx context.Context) (service, error) {
	cfg := sandbox.DefaultConfig()
	cfg.Dir = filepath.Join(s.cfg.Data, "sandbox")
	cfg.ReleaseOnStop = true // who ends a suite on a desk expects nothing to go on
	return sandbox.New(ctx, cfg, sandbox.Deps{Workspace: s.conns[Workspace], Logger: s.log})
}

func (s *Suite) task(ctx context.Context) (service, error) {
	cfg := task.DefaultConfig()
	cfg.Database = filepath.Join(s.cfg.Data, "task", "tasks.db")
	return task.New(ctx, cfg, task.Deps{Threads: s.conns[Workspace], Token: s.courierToken, Logger: s.log})
}

// courierToken is the credential with which the task service delivers a result into a thread, which no user stands behind.
func (s *Suite) courierToken(ctx context.Context, tenant string) (string, error) {
	id, _ := identity.FromContext(ctx) // that of the thread
	token, _, err := s.minter.Mint(access.Capability{
		Identity: id, Bucket: identity.Bucket{Tenant: tenant, Scope: identity.ScopeGlobal}, Verbs: []string{"thread.write"},
	})
	return token, err
}

func (s *Suite) orchestrator(ctx context.Context) (service, error) {
	cfg := orchestrator.DefaultConfig()
	cfg.Model, cfg.OllamaURL, cfg.Script = s.cfg.Model, s.cfg.Ollama, s.cfg.Script
	cfg.MCPCommands, cfg.MCPPrivate, cfg.MCPVariables = s.cfg.MCPCommands, s.cfg.MCPPrivate, s.cfg.MCPVariables
	return orchestrator.New(ctx, cfg, orchestrator.Deps{
		Workspace: s.conns[Workspace], Threads: s.conns[Workspace], Memory: s.conns[Memory], Sandbox: s.conns[Sandbox], Tasks: s.conns[Task],
		Minter: s.minter, Logger: s.log,
	})
}
