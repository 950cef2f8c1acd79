package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// Who says on whose behalf a command works.
type Who struct {
	Agent   string `short:"a" help:"Agent." env:"GANTRY_AGENT" default:"default"`
	User    string `short:"u" help:"User. Empty: anonymous." env:"GANTRY_USER"`
	Session string `short:"s" help:"Session. Empty: a fresh one where one is needed." env:"GANTRY_SESSION"`
	Scope   string `help:"Whose data: session, user, agent or global. Empty: the agent's default." enum:",session,user,agent,global" default:""`
}

// Where says which Gantry a command talks to.
type Where struct {
	Addr          string        `help:"Address of the orchestrator, or of everything." env:"GANTRY_ADDR" default:"127.0.0.1:7401"`
	WorkspaceAddr string        `name:"workspace-addr" help:"Address of the workspace service. Empty: --addr." env:"GANTRY_WORKSPACE_ADDR"`
	MemoryAddr    string        `name:"memory-addr" help:"Address of the memory service. Empty: --addr." env:"GANTRY_MEMORY_ADDR"`
	SandboxAddr   string        `name:"sandbox-addr" help:"Address of the sandbox service. Empty: --addr." env:"GANTRY_SANDBOX_ADDR"`
	TaskAddr      string        `name:"task-addr" help:"Address of the task service. Empty: --addr." env:"GANTRY_TASK_ADDR"`
	Token         config.Secret `help:"Credential." env:"GANTRY_TOKEN"`
	Local         bool          `help:"Run the whole suite inside this command, on --data, for its duration."`
	Data          string        `help:"Data directory of --local." default:".gantry" type:"path"`
	Workspaces    string        `help:"Directory of agents of --local." type:"path"`
	Timeout       time.Duration `help:"How long the command may take. 0: as long as it takes." default:"0"`

	importDirs []string // directories of --local from which workspaces may be imported
}

// Target is what every command that calls Gantry has.
type Target struct {
	Where `embed:"" group:"connection"`
	Who   `embed:"" group:"identity"`
	JSON  bool `help:"Print JSON: one object, or one a line for streams."`
}

// Clients are the clients of all services.
type Clients struct {
	Files     fsv1.FilesystemServiceClient
	Workspace workspacev1.WorkspaceServiceClient
	Threads   threadv1.ThreadServiceClient
	Memory    memoryv1.MemoryServiceClient
	Sandbox   sandboxv1.SandboxServiceClient
	Tasks     taskv1.TaskServiceClient
	Agents    orchestratorv1.AgentServiceClient
	Runs      orchestratorv1.RunServiceClient
	Admin     orchestratorv1.ThreadAdminServiceClient
}

// NewClients makes clients of connections.
func NewClients(orchestrator, workspace, memory, sandbox, task grpc.ClientConnInterface) *Clients {
	return &Clients{
		Files: fsv1.NewFilesystemServiceClient(orchestrator), Workspace: workspacev1.NewWorkspaceServiceClient(workspace),
		Threads: threadv1.NewThreadServiceClient(workspace), Memory: memoryv1.NewMemoryServiceClient(memory),
		Sandbox: sandboxv1.NewSandboxServiceClient(sandbox), Tasks: taskv1.NewTaskServiceClient(task),
		Agents: orchestratorv1.NewAgentServiceClient(orchestrator), Runs: orchestratorv1.NewRunServiceClient(orchestrator),
		Admin: orchestratorv1.NewThreadAdminServiceClient(orchestrator),
	}
}

// Do connects, calls fn with the identity in its context, and closes.
func (t *Target) Do(ctx context.Context, env *Env, fn func(ctx context.Context, c *Clients) error) (err error) {
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Timeout)
		defer cancel()
	}
	ctx, err = t.context(ctx)
	if err != nil {
		return err
	}
	clients, done, err := t.connect(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	return fn(ctx, clients)
}

// context carries the identity and the credential of the command.
func (t *Target) context(ctx context.Context) (context.Context, error) {
	id := identity.Identity{Tenant: identity.DefaultTenant, Agent: t.Agent, User: t.User, Session: t.Session, ScopeUnset: t.Scope == ""}
	if t.Scope != "" {
		scope, err := identity.ParseScope(t.Scope)
		if err != nil {
			return ctx, err
		}
		id.Scope = scope
	}
	if err := id.Validate(); err != nil {
		return ctx, err
	}
	ctx = identity.NewContext(ctx, id)
	if token := t.Token.Reveal(); token != "" {
		ctx = access.NewTokenContext(ctx, token)
	}
	return ctx, nil
}

func (t *Target) connect(ctx context.Context, env *Env) (*Clients, func(context.Context) error, error) {
	if t.Local {
		return t.local(ctx, env)
	}
	var conns []*grpc.ClientConn
	closeAll := func(context.Context) error {
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	dial := func(address string) (grpc.ClientConnInterface, error) {
		if address == "" {
			address = t.Addr
		}
		c, err := client.Dial(address, nil)
		if err != nil {
			return nil, fmt.Errorf("address %q: %w", address, err)
		}
		conns = append(conns, c)
		return c, nil
	}
	var made []grpc.ClientConnInterface
	for _, address := range []string{t.Addr, t.WorkspaceAddr, t.MemoryAddr, t.SandboxAddr, t.TaskAddr} {
		c, err := dial(address)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll(ctx))
		}
		made = append(made, c)
	}
	return NewClients(made[0], made[1], made[2], made[3], made[4]), closeAll, nil
}

// local runs the suite in this process, reachable for this command alone.
func (t *Target) local(ctx context.Context, env *Env) (*Clients, func(context.Context) error, error) {
	cfg := suite.DefaultConfig()
	cfg.Data, cfg.Workspaces, cfg.ImportDirs = t.Data, t.Workspaces, t.importDirs
	s, err := suite.Start(ctx, cfg, suite.Options{Logger: env.Quiet(), Private: true})
	if err != nil {
		return nil, nil, err
	}
	return NewClients(s.Conn(suite.Orchestrator), s.Conn(suite.Workspace), s.Conn(suite.Memory), s.Conn(suite.Sandbox), s.Conn(suite.Task)), s.Stop, nil
}
