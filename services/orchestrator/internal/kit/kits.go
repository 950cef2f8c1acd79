// Package kit puts together what one run works with: the definition of the agent as the caller's bucket sees it, narrowed by the call and by the parent's
// ceilings, the tools that are left, the policy, and the compiler of its requests.
package kit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/mcp"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tools"
)

// Services are the clients that tools act through. Nil ones are not there: their tools do not exist.
type Services struct {
	Loader    *definition.Loader
	Workspace workspacev1.WorkspaceServiceClient
	// Files is the workspace service's; Routed is the router over it and the sandbox.
	Files, Routed fsv1.FilesystemServiceClient
	Memory        memoryv1.MemoryServiceClient
	Threads       threadv1.ThreadServiceClient
	Tasks         taskv1.TaskServiceClient
	Sandbox       sandboxv1.SandboxServiceClient
	// DialFiles connects to a FilesystemService that an agent names. Nil: agents may not.
	DialFiles func(address string) (fsv1.FilesystemServiceClient, error)
	// MCP reaches MCP servers. Nil: agents have none.
	MCP *mcp.Pool
	// LocalShell allows the mode local + shell.
	LocalShell bool
	Now        func() time.Time
}

// MaxDepth is how deep children may be nested, whatever declarations say.
const MaxDepth = 3

// Kits implements [run.Kits].
type Kits struct {
	s Services

	mu     sync.Mutex
	probed time.Time
	usable bool
	dialed map[string]fsv1.FilesystemServiceClient
}

// New makes kits.
func New(s Services) *Kits { return &Kits{s: s, dialed: map[string]fsv1.FilesystemServiceClient{}} }

// Kit implements [run.Kits].
func (k *Kits) Kit(ctx context.Context, f run.Facts) (run.Kit, error) { return k.Build(ctx, f) }

// Build makes a kit. The errors are those of loading (AGENT_NOT_FOUND, DEFINITION_INVALID) and SPEC_INVALID.
func (k *Kits) Build(ctx context.Context, f run.Facts) (*Kit, error) {
	spec := f.Call.GetSpec()
	d, err := k.s.Loader.Load(ctx, spec.GetAdditionalContext()...)
	if err != nil {
		return nil, err
	}
	out := &Kit{definition: d, call: f.Call, facts: f, now: k.s.Now}
	if f.Child != nil && f.Child.Subagent != "" {
		sub, ok := d.Subagent(f.Child.Subagent)
		if !ok {
			return nil, errdefs.New(errdefs.ErrFailedPrecondition, definition.Domain, "DEFINITION_INVALID", "the subagent %q does not exist any more", f.Child.Subagent)
		}
		out.subagent = &sub
	}
	if out.policy, err = out.basePolicy(); err != nil {
		return nil, err
	}
	env, err := k.env(ctx, out)
	if err != nil {
		return nil, err
	}
	env.MCP = k.remote(ctx, out)
	out.setTools(env)
	return out, nil
}

// remote gives the tools of the run's MCP servers. What is wrong with a server is told and takes nothing but its tools.
func (k *Kits) remote(ctx context.Context, kit *Kit) []tool.Tool {
	servers := kit.servers()
	if len(servers) == 0 || k.s.MCP == nil {
		return nil
	}
	id := kit.facts.Identity
	have, problems := k.s.MCP.Tools(ctx, mcp.Caller{Tenant: id.Tenant, Agent: id.Agent, User: id.User, Session: id.Session, Attributes: kit.facts.Attributes}, servers)
	kit.remoteProblems = problems
	return have
}

// env is what the tools of the kit act through.
func (k *Kits) env(ctx context.Context, kit *Kit) (tools.Env, error) {
	f := kit.facts
	thread, err := f.Identity.Thread()
	if err != nil {
		return tools.Env{}, err
	}
	env := tools.Env{
		Memory: k.s.Memory, Threads: k.s.Threads, Tasks: k.s.Tasks, Definition: kit.definition, Spec: f.Call.GetSpec(), Only: kit.only(), ClientTools: f.Call.GetClientTools(),
		Thread: thread, Scope: f.Identity.Scope, RunID: f.RunID, MaxDepth: 1, Delegate: kit.delegate, State: kit.state, Now: k.s.Now,
	}
	if c := f.Child; c != nil {
		env.TaskID, env.Depth, env.MaxDepth = c.TaskID, c.Depth, c.Depth
		if kit.subagent != nil {
			env.MaxDepth = min(MaxDepth, c.Depth+kit.subagent.Depth)
		}
	}
	return env, k.place(ctx, kit, &env)
}

// place decides where file tools go and whether there is a shell.
func (k *Kits) place(ctx context.Context, kit *Kit, env *tools.Env) error {
	f := kit.facts
	mode, address := kit.filesystem()
	if at := orchestratorv1.FilesystemMode(orchestratorv1.FilesystemMode_value[f.Place]); at != 0 {
		mode, kit.mode = at, at
	}
	if address != "" {
		files, err := k.foreign(address)
		env.Files = files
		return err
	}
	env.Files = k.s.Files
	switch mode {
	case orchestratorv1.FilesystemMode_FILESYSTEM_MODE_STORE:
		return nil
	case orchestratorv1.FilesystemMode_FILESYSTEM_MODE_LOCAL_SHELL:
		return k.localShell(ctx, env)
	case orchestratorv1.FilesystemMode_FILESYSTEM_MODE_SANDBOX:
		ok, err := k.possible(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return errdefs.New(errdefs.ErrFailedPrecondition, definition.Domain, "SANDBOX_UNAVAILABLE", "this agent works in a sandbox and none can be had here; doctor says why").
				With("cause", "no driver is available")
		}
	default:
		ok, err := k.possible(ctx)
		if err != nil {
			return err
		}
		if !ok {
			kit.mode = orchestratorv1.FilesystemMode_FILESYSTEM_MODE_STORE
			return nil
		}
	}
	kit.mode = orchestratorv1.FilesystemMode_FILESYSTEM_MODE_SANDBOX
	env.Files, env.Sandbox = k.s.Routed, k.s.Sandbox
	env.SandboxSpec = &sandboxv1.SandboxSpec{Project: true}
	return nil
}

func (k *Kits) localShell(ctx context.Context, env *tools.Env) error {
	if !k.s.LocalShell || k.s.Sandbox == nil {
		return errdefs.New(errdefs.ErrFailedPrecondition, definition.Domain, "SANDBOX_UNAVAILABLE", "the mode local + shell is off; the operator can allow it").With("cause", "not configured")
	}
	at, err := k.s.Workspace.LocateBucket(ctx, &workspacev1.LocateBucketRequest{})
	if err != nil {
		return err
	}
	env.Sandbox = k.s.Sandbox
	env.SandboxSpec = &sandboxv1.SandboxSpec{Driver: "process", HostDir: at.GetDirectory()}
	return nil
}

// probeLife is how long the answer of the sandbox service counts.
const probeLife = 30 * time.Second

// possible says whether the sandbox service can make sandboxes. One that does not answer is UNAVAILABLE/SANDBOX_UNAVAILABLE and not a no: the files of an agent must not be in one place today and in
// another one tomorrow.
func (k *Kits) possible(ctx context.Context) (bool, error) {
	if k.s.Sandbox == nil {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.s.Now().Sub(k.probed) < probeLife {
		return k.usable, nil
	}
	got, err := k.s.Sandbox.Probe(ctx, &sandboxv1.ProbeRequest{})
	if err != nil {
		return false, errdefs.Wrap(err, errdefs.ErrUnavailable, definition.Domain, "SANDBOX_UNAVAILABLE", "the sandbox service does not answer; start it, or set sandbox-address to none")
	}
	k.usable = slices.ContainsFunc(got.GetDrivers(), func(d *sandboxv1.DriverProbe) bool { return d.GetAvailable() && d.GetIsolation() })
	k.probed = k.s.Now()
	return k.usable, nil
}

// HasSandbox says whether the agent of the context's identity has a sandbox: the mode of the router.
func (k *Kits) HasSandbox(ctx context.Context) (bool, error) {
	d, err := k.s.Loader.Load(ctx)
	if err != nil {
		return false, err
	}
	if d.Spec.GetFilesystemAddress() != "" || k.s.Sandbox == nil {
		return false, nil
	}
	switch d.Spec.GetFilesystemMode() {
	case orchestratorv1.FilesystemMode_FILESYSTEM_MODE_STORE, orchestratorv1.FilesystemMode_FILESYSTEM_MODE_LOCAL_SHELL:
		return false, nil
	}
	return k.possible(ctx)
}

func (k *Kits) foreign(address string) (fsv1.FilesystemServiceClient, error) {
	if k.s.DialFiles == nil {
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, definition.Domain, "SPEC_INVALID", "agents may not name a file service of their own here").With("field", "filesystem_address")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.dialed[address]; c != nil {
		return c, nil
	}
	c, err := k.s.DialFiles(address)
	if err == nil {
		k.dialed[address] = c
	}
	return c, err
}

// basePolicy is the policy that does not change while the run works.
func (k *Kit) basePolicy() (policy.Policy, error) {
	base, err := policyOf(k.definition.Spec.GetPolicyMode(), k.definition.Spec.GetPolicyRules())
	if err != nil {
		return base, err
	}
	if spec := k.call.GetSpec(); spec.GetPolicyMode() != "" || len(spec.GetPolicyRules()) > 0 {
		own, err := policyOf(spec.GetPolicyMode(), spec.GetPolicyRules())
		if err != nil {
			return base, err
		}
		if spec.GetPolicyMode() == "" {
			own.Mode = base.Mode
		}
		base = base.Ceiling(own)
	}
	if c := k.facts.Child; c != nil {
		parent, err := policyOf(c.Mode, c.Rules)
		if err != nil {
			return base, err
		}
		parent.Planning = c.Planning
		base = parent.Ceiling(base)
	}
	return base, nil
}

func policyOf(mode string, lines []string) (policy.Policy, error) {
	m, ok := policy.ParseMode(mode)
	if !ok {
		return policy.Policy{}, errdefs.New(errdefs.ErrInvalidArgument, definition.Domain, "SPEC_INVALID", "no policy mode is called %q", mode).With("field", "policy_mode")
	}
	rules, err := policy.ParseRules(lines)
	return policy.Policy{Mode: m, Rules: rules}, err
}

// only is the allow-list of a child: what its declaration names, within what its parent has.
func (k *Kit) only() []string {
	c := k.facts.Child
	if c == nil {
		return nil
	}
	if k.subagent == nil || len(k.subagent.Tools) == 0 {
		return c.Tools
	}
	if len(c.Tools) == 0 {
		return k.subagent.Tools
	}
	var out []string
	for _, have := range c.Tools {
		if slices.ContainsFunc(k.subagent.Tools, func(entry string) bool { return definition.Names(entry, have) }) {
			out = append(out, have)
		}
	}
	if len(out) == 0 {
		return []string{"none"} // an empty list would mean everything
	}
	return out
}

func joined(lines []string) string { return strings.Join(lines, "\n") }
