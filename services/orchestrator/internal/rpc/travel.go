package rpc

import (
	"context"
	"strconv"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/replay"
)

// between reads the thread as it was at a sequence where no run was open: inside one, calls may lack their results. 0 is the head.
func (s *threadServer) between(ctx context.Context, seq int64) (*loop.Thread, error) {
	opened, err := checkpoint.Open(ctx, s.Threads, seq, s.Log)
	if err != nil {
		return nil, err
	}
	t := opened.Thread
	if seq > t.Seq {
		return nil, errdefs.New(errdefs.ErrOutOfRange, threadDomain, "CURSOR_INVALID", "the journal ends at %d", t.Seq).With("head_seq", strconv.FormatInt(t.Seq, 10))
	}
	if t.Run != nil {
		nearest := t.Run.FirstSeq - 1
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, threadDomain, "NO_FORK_POINT", "a run is open at %d; the nearest place before it is %d", t.Seq, nearest).
			With("seq", strconv.FormatInt(t.Seq, 10)).With("nearest", strconv.FormatInt(nearest, 10))
	}
	return t, nil
}

func (s *threadServer) RewindThread(ctx context.Context, req *orchestratorv1.RewindThreadRequest) (*orchestratorv1.RewindThreadResponse, error) {
	ctx, id, _, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	past := &loop.Thread{}
	if req.GetToSeq() > 0 {
		if past, err = s.between(ctx, req.GetToSeq()); err != nil {
			return nil, err
		}
	}
	if err := s.Runs.Rewind(ctx, id, past); err != nil {
		return nil, err
	}
	head, err := s.Threads.Head(ctx, &threadv1.HeadRequest{})
	return &orchestratorv1.RewindThreadResponse{Thread: head.GetHead()}, err
}

func (s *threadServer) replayer() replay.Replayer {
	return replay.Replayer{Threads: s.Threads, Files: s.Files, Kits: s.Kits, Models: s.Models}
}

func (s *threadServer) ReplayThread(ctx context.Context, req *orchestratorv1.ReplayThreadRequest) (*orchestratorv1.ReplayThreadResponse, error) {
	if _, err := identity.ThreadFromContext(ctx); err != nil {
		return nil, err
	}
	return s.replayer().Thread(ctx, req.GetRunId())
}

func (s *threadServer) CompareRuns(ctx context.Context, req *orchestratorv1.CompareRunsRequest) (*orchestratorv1.CompareRunsResponse, error) {
	id, ok := identity.FromContext(ctx)
	if _, err := identity.ThreadFromContext(ctx); err != nil || !ok {
		return nil, err
	}
	run, err := s.Runs.Get(ctx, req.GetRunId())
	if err != nil {
		return nil, err
	}
	otherCtx := ctx
	if req.GetOtherSession() != "" {
		id.Session = req.GetOtherSession()
		otherCtx = identity.NewContext(ctx, id)
	}
	other, err := s.Runs.Get(otherCtx, req.GetOtherRunId())
	if err != nil {
		return nil, err
	}
	differences, err := replay.Compare(ctx, otherCtx, s.Threads, run.GetId(), other.GetId())
	return &orchestratorv1.CompareRunsResponse{Run: run, Other: other, Differences: differences}, err
}
