package bench

import (
	"context"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// hopGoal is how many echoes each hop of a simple call may take: the chain of interceptors on both sides, and the work itself.
const hopGoal = 15

// call is a simple read that goes through a service.
type call struct {
	service string
	// hops are the calls that it takes: services that ask others first have more than one.
	hops float64
	do   func(context.Context) error
}

// callsOf are the reads, one a service: each does the service's own work once, and none changes anything. Names of services are
// the same in one process and across processes.
func callsOf(conn func(service string) grpc.ClientConnInterface) []call {
	files := fsv1.NewFilesystemServiceClient(conn(procs.Workspace))
	memories := memoryv1.NewMemoryServiceClient(conn(procs.Memory))
	sandboxes := sandboxv1.NewSandboxServiceClient(conn(procs.Sandbox))
	tasks := taskv1.NewTaskServiceClient(conn(procs.Task))
	runs := orchestratorv1.NewRunServiceClient(conn(procs.Orchestrator))
	return []call{
		{procs.Workspace, 1, func(ctx context.Context) error {
			_, err := files.Stat(ctx, &fsv1.StatRequest{Path: "AGENTS.md"})
			return err
		}},
		{procs.Memory, 2, func(ctx context.Context) error {
			_, err := memories.ListVersions(ctx, &memoryv1.ListVersionsRequest{})
			return err
		}},
		{procs.Sandbox, 1, func(ctx context.Context) error {
			_, err := sandboxes.List(ctx, &sandboxv1.ListRequest{})
			return err
		}},
		{procs.Task, 1, func(ctx context.Context) error {
			_, err := tasks.ListTasks(ctx, &taskv1.ListTasksRequest{})
			return err
		}},
		{procs.Orchestrator, 3, func(ctx context.Context) error {
			_, err := runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: "latest"})
			return err
		}},
	}
}

// as is the context of calls by the user of the benchmark.
func as(ctx context.Context, session string) context.Context {
	return identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: agent, User: "bench", Session: session, ScopeUnset: true})
}
