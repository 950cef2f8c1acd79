// Package rest turns HTTP into calls of the services.
package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
)

// Config is what the handler needs of the gateway's settings.
type Config struct {
	Address         string
	AllowedHosts    []string
	AllowedOrigins  []string
	MaxRequestBytes int64
}

// Upstream are the connections to the services.
type Upstream struct {
	Orchestrator, Workspace, Threads, Memory, Sandbox, Tasks grpc.ClientConnInterface
}

// Handler serves REST below /v1/, the OpenAPI description and page, and /healthz.
func Handler(ctx context.Context, cfg Config, up Upstream) (http.Handler, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, jsonMarshaler()),
		runtime.WithMarshalerOption("text/event-stream", &eventStream{jsonMarshaler()}),
		runtime.WithIncomingHeaderMatcher(incoming),
		runtime.WithOutgoingHeaderMatcher(outgoing),
		runtime.WithErrorHandler(writeError),
		runtime.WithStreamErrorHandler(streamError),
		runtime.WithRoutingErrorHandler(routingError),
		runtime.WithDisablePathLengthFallback(),
	)
	if err := up.register(ctx, mux); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	root := http.NewServeMux()
	root.Handle("/v1/", limitBody(cfg.MaxRequestBytes, mux))
	root.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	addOpenAPI(root)
	return guard(cfg, root)
}

// register binds each service's REST handlers to the connection of the service that serves it. Files go to the orchestrator, whose router
// knows where an agent's files are.
func (up Upstream) register(ctx context.Context, mux *runtime.ServeMux) error {
	for _, register := range []func() error{
		func() error {
			return fsv1.RegisterFilesystemServiceHandlerClient(ctx, mux, fsv1.NewFilesystemServiceClient(up.Orchestrator))
		},
		func() error {
			return orchestratorv1.RegisterAgentServiceHandlerClient(ctx, mux, orchestratorv1.NewAgentServiceClient(up.Orchestrator))
		},
		func() error {
			return orchestratorv1.RegisterRunServiceHandlerClient(ctx, mux, orchestratorv1.NewRunServiceClient(up.Orchestrator))
		},
		func() error {
			return orchestratorv1.RegisterThreadAdminServiceHandlerClient(ctx, mux, orchestratorv1.NewThreadAdminServiceClient(up.Orchestrator))
		},
		func() error {
			return orchestratorv1.RegisterSkillServiceHandlerClient(ctx, mux, orchestratorv1.NewSkillServiceClient(up.Orchestrator))
		},
		func() error {
			return orchestratorv1.RegisterTrainingServiceHandlerClient(ctx, mux, orchestratorv1.NewTrainingServiceClient(up.Orchestrator))
		},
		func() error {
			return workspacev1.RegisterWorkspaceServiceHandlerClient(ctx, mux, workspacev1.NewWorkspaceServiceClient(up.Workspace))
		},
		func() error {
			return threadv1.RegisterThreadServiceHandlerClient(ctx, mux, threadv1.NewThreadServiceClient(up.Threads))
		},
		func() error {
			return memoryv1.RegisterMemoryServiceHandlerClient(ctx, mux, memoryv1.NewMemoryServiceClient(up.Memory))
		},
		func() error {
			return sandboxv1.RegisterSandboxServiceHandlerClient(ctx, mux, sandboxv1.NewSandboxServiceClient(up.Sandbox))
		},
		func() error {
			return taskv1.RegisterTaskServiceHandlerClient(ctx, mux, taskv1.NewTaskServiceClient(up.Tasks))
		},
	} {
		if err := register(); err != nil {
			return err
		}
	}
	return nil
}
