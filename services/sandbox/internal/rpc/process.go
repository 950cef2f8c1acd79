package rpc

import (
	"context"
	"syscall"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// ListProcesses implements SandboxService.
func (s *Server) ListProcesses(ctx context.Context, req *pb.ListProcessesRequest) (*pb.ListProcessesResponse, error) {
	l, release, err := s.existing(ctx, req.GetSandboxId(), 0)
	if err != nil {
		return nil, err
	}
	defer release()
	records, err := l.Instance.Execs(ctx)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListProcessesResponse{}
	for _, r := range records {
		if r.Kind != "" {
			continue
		}
		if !req.GetRunningOnly() || r.Exit.State == sandbox.StateRunning {
			resp.Records = append(resp.Records, toRecord(l.Instance.Spec().ID, r))
		}
	}
	return resp, nil
}

// SignalProcess implements SandboxService.
func (s *Server) SignalProcess(ctx context.Context, req *pb.SignalProcessRequest) (*pb.SignalProcessResponse, error) {
	l, release, err := s.existing(ctx, req.GetSandboxId(), 0)
	if err != nil {
		return nil, err
	}
	defer release()
	signal := int(req.GetSignal())
	if signal == 0 {
		signal = int(syscall.SIGTERM)
	}
	return &pb.SignalProcessResponse{}, l.Instance.Signal(ctx, req.GetExecId(), signal)
}

// GetExecRecord implements SandboxService.
func (s *Server) GetExecRecord(ctx context.Context, req *pb.GetExecRecordRequest) (*pb.GetExecRecordResponse, error) {
	c, err := who(ctx, req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	id := req.GetExecId() + req.GetEffect()
	if (req.GetExecId() == "") == (req.GetEffect() == "") {
		return nil, sandbox.Errorf(errdefs.ErrInvalidArgument, sandbox.ReasonCommandInvalid, "exactly one of exec_id and effect must be set")
	}
	r, void, err := s.m.Lookup(ctx, c.bucket, id)
	if err != nil {
		return nil, err
	}
	return &pb.GetExecRecordResponse{Record: toRecord(s.liveID(c.bucket, r.Generation), r), Voided: void}, nil
}

// liveID is the id of the live sandbox if a record is of its generation.
func (s *Server) liveID(bucket string, generation int64) string {
	l, err := s.m.Find(bucket, "")
	if err != nil || l.Instance.Spec().Generation != generation {
		return ""
	}
	return l.Instance.Spec().ID
}
