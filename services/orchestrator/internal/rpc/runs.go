package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

type runServer struct {
	orchestratorv1.UnimplementedRunServiceServer
	*Server
}

// submit accepts an input.
func (s *runServer) submit(ctx context.Context, in *orchestratorv1.RunInput) (context.Context, run.Started, error) {
	ctx, id, d, err := s.identify(ctx)
	if err != nil {
		return nil, run.Started{}, err
	}
	if err := s.checkInput(ctx, d, in); err != nil {
		return nil, run.Started{}, err
	}
	if err := tellSession(ctx, id); err != nil {
		return nil, run.Started{}, err
	}
	started, err := s.Runs.Submit(ctx, id, in)
	return ctx, started, err
}

// checkInput refuses at the door what a run could only fail on.
func (s *runServer) checkInput(ctx context.Context, d *definition.Definition, in *orchestratorv1.RunInput) error {
	spec := in.GetSpec()
	if spec.GetFilesystemMode() != 0 && spec.GetFilesystemAddress() != "" {
		return invalid("filesystem_address", "filesystem_mode and filesystem_address exclude each other")
	}
	if spec.GetFilesystemMode() != 0 || spec.GetFilesystemAddress() != "" || len(spec.GetFiles()) > 0 || len(spec.GetMcpServers().GetFields()) > 0 {
		// These widen what a run can reach; everything else in a call's spec only narrows.
		if g, ok := access.FromContext(ctx); ok {
			if err := g.Check("agent.define"); err != nil {
				return err
			}
		}
	}
	if _, problems := definition.ParseServers(spec.GetMcpServers()); len(problems) > 0 {
		return invalid("mcp_servers", "%s", problems[0])
	}
	if _, ok := policy.ParseMode(spec.GetPolicyMode()); !ok {
		return invalid("policy_mode", "no policy mode is called %q", spec.GetPolicyMode())
	}
	if _, err := policy.ParseRules(spec.GetPolicyRules()); err != nil {
		return err
	}
	if in.GetText() == "" && len(in.GetMedia()) == 0 {
		return invalid("text", "the input is empty")
	}
	seen := map[string]bool{}
	for _, t := range in.GetClientTools() {
		if seen[t.GetName()] {
			return invalid("client_tools", "two client tools are called %q", t.GetName())
		}
		seen[t.GetName()] = true
	}
	name := spec.GetModel()
	if name == "" {
		name = d.Spec.GetModel()
	}
	_, err := s.Models.Resolve(ctx, name)
	return err
}

func (s *runServer) CallAgent(ctx context.Context, req *orchestratorv1.CallAgentRequest) (*orchestratorv1.CallAgentResponse, error) {
	ctx, started, err := s.submit(ctx, req.GetInput())
	if err != nil {
		return nil, err
	}
	r, err := s.watch(ctx, started, func(*orchestratorv1.RunEvent) error { return nil })
	if err != nil {
		s.left(ctx, req.GetInput(), started)
		return nil, err
	}
	if err := run.BusyError(r); err != nil {
		return nil, err
	}
	return &orchestratorv1.CallAgentResponse{Run: r}, nil
}

func (s *runServer) StreamAgent(req *orchestratorv1.StreamAgentRequest, stream grpc.ServerStreamingServer[orchestratorv1.StreamAgentResponse]) error {
	ctx, started, err := s.submit(stream.Context(), req.GetInput())
	if err != nil {
		return err
	}
	_, err = s.watch(ctx, started, func(ev *orchestratorv1.RunEvent) error {
		return stream.Send(&orchestratorv1.StreamAgentResponse{Event: ev})
	})
	if err != nil {
		s.left(ctx, req.GetInput(), started)
	}
	return err
}

// watch is [run.Manager.Watch] that ends in good order when the server stops: the caller attaches elsewhere, the run goes on.
func (s *runServer) watch(ctx context.Context, started run.Started, send run.Send) (*orchestratorv1.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopping := server.Stopping(ctx)
	go func() {
		select {
		case <-stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	r, err := s.Runs.Watch(ctx, started, send)
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		return nil, errStopping
	}
	return r, err
}

// errStopping ends streams of a server that stops.
var errStopping = errdefs.New(errdefs.ErrUnavailable, run.Domain, "SERVICE_UNAVAILABLE", "this replica is stopping; attach to the run again").With("service", "orchestrator")

// left is called when a caller went away before its run ended. The run goes on unless the caller wished otherwise.
func (s *runServer) left(ctx context.Context, in *orchestratorv1.RunInput, started run.Started) {
	if !in.GetCancelOnDisconnect() || ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, err := s.Runs.Cancel(ctx, started.Run.GetId(), "the caller left"); err != nil {
		s.Log.WarnContext(ctx, "the run of a caller that left could not be cancelled", "run", started.Run.GetId(), "error", err)
	}
}

func (s *runServer) StartRun(ctx context.Context, req *orchestratorv1.StartRunRequest) (*orchestratorv1.StartRunResponse, error) {
	_, started, err := s.submit(ctx, req.GetInput())
	if err != nil {
		return nil, err
	}
	started.Go()
	return &orchestratorv1.StartRunResponse{Run: started.Run}, nil
}

func (s *runServer) AttachRun(req *orchestratorv1.AttachRunRequest, stream grpc.ServerStreamingServer[orchestratorv1.AttachRunResponse]) error {
	r, err := s.Runs.Get(stream.Context(), req.GetRunId())
	if err != nil {
		return err
	}
	_, err = s.watch(stream.Context(), run.Attach(r, req.GetAfterSeq()), func(ev *orchestratorv1.RunEvent) error {
		return stream.Send(&orchestratorv1.AttachRunResponse{Event: ev})
	})
	return err
}

func (s *runServer) GetRun(ctx context.Context, req *orchestratorv1.GetRunRequest) (*orchestratorv1.GetRunResponse, error) {
	r, err := s.Runs.Get(ctx, req.GetRunId())
	return &orchestratorv1.GetRunResponse{Run: r}, err
}

func (s *runServer) ListRuns(ctx context.Context, req *orchestratorv1.ListRunsRequest) (*orchestratorv1.ListRunsResponse, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	views, err := s.Runs.Views(ctx, key)
	if err != nil {
		return nil, err
	}
	runs, next, err := page(views.Newest(), "runs", req.GetPageSize(), req.GetPageToken())
	return &orchestratorv1.ListRunsResponse{Runs: runs, NextPageToken: next}, err
}

func (s *runServer) CancelRun(ctx context.Context, req *orchestratorv1.CancelRunRequest) (*orchestratorv1.CancelRunResponse, error) {
	r, err := s.Runs.Get(ctx, req.GetRunId())
	if err == nil && r.GetTaskId() != "" && s.Tasks != nil && !loop.Terminal(r.GetState()) {
		// The task is the truth of a child: who has its lease cancels the run.
		if _, err := s.Tasks.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: r.GetTaskId(), Reason: req.GetReason()}); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	r, err = s.Runs.Cancel(ctx, r.GetId(), req.GetReason())
	return &orchestratorv1.CancelRunResponse{Run: r}, err
}

func (s *runServer) SteerRun(ctx context.Context, req *orchestratorv1.SteerRunRequest) (*orchestratorv1.SteerRunResponse, error) {
	id, err := s.Runs.Steer(ctx, req.GetRunId(), req.GetKind(), req.GetText(), req.GetMessageId())
	return &orchestratorv1.SteerRunResponse{MessageId: id}, err
}

func (s *runServer) PreviewContext(ctx context.Context, req *orchestratorv1.PreviewContextRequest) (*orchestratorv1.PreviewContextResponse, error) {
	ctx, id, d, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.checkInput(ctx, d, req.GetInput()); err != nil {
		return nil, err
	}
	start := s.Now()
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	t, err := s.Runs.Load(ctx)
	if err != nil {
		return nil, err
	}
	k, err := s.Kits.Build(ctx, run.Facts{Identity: id, Bucket: bucket, Call: req.GetInput()})
	if err != nil {
		return nil, err
	}
	name, _ := k.Models()
	resolved, err := s.Models.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	compiled, manifest, err := k.Compile(ctx, run.Compile{
		Thread: t, Model: resolved.Info, Input: loop.Text("preview", threadv1.Role_ROLE_USER, "", req.GetInput().GetText()),
	})
	if err != nil {
		return nil, err
	}
	manifest.Model = resolved.Ref
	return &orchestratorv1.PreviewContextResponse{
		Manifest: manifest, System: compiled.System, Messages: messagesOf(compiled.Messages), Latency: durationpb.New(s.Now().Sub(start)),
	}, nil
}
