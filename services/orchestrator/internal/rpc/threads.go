package rpc

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

const threadDomain = "gantry.thread.v1"

type threadServer struct {
	orchestratorv1.UnimplementedThreadAdminServiceServer
	*Server
}

func (s *threadServer) ListThreads(ctx context.Context, req *orchestratorv1.ListThreadsRequest) (*orchestratorv1.ListThreadsResponse, error) {
	resp, err := s.Threads.List(ctx, &threadv1.ListRequest{PageSize: req.GetPageSize(), PageToken: req.GetPageToken()})
	if err != nil {
		return nil, err
	}
	return &orchestratorv1.ListThreadsResponse{Threads: resp.GetHeads(), NextPageToken: resp.GetNextPageToken()}, nil
}

func (s *threadServer) GetThread(ctx context.Context, _ *orchestratorv1.GetThreadRequest) (*orchestratorv1.GetThreadResponse, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.Threads.Head(ctx, &threadv1.HeadRequest{})
	if err != nil {
		return nil, err
	}
	views, err := s.Runs.Views(ctx, key)
	if err != nil {
		return nil, err
	}
	return &orchestratorv1.GetThreadResponse{Thread: head.GetHead(), LatestRun: views.Find(run.Latest)}, nil
}

// transcript is everything that was said, and up to which sequence a summary stands for it.
func (s *threadServer) transcript(ctx context.Context, visible bool) (messages []*orchestratorv1.ThreadMessage, err error) {
	if _, err := identity.ThreadFromContext(ctx); err != nil {
		return nil, err
	}
	if visible {
		opened, err := checkpoint.Open(ctx, s.Threads, 0, s.Log)
		if err != nil {
			return nil, err
		}
		for _, e := range opened.Thread.Conversation {
			messages = append(messages, &orchestratorv1.ThreadMessage{Message: e.Message, Seq: e.Seq, RunId: e.RunID})
		}
		return messages, nil
	}
	t, through := &loop.Thread{}, int64(0)
	_, err = journal.Scan(ctx, s.Threads, &threadv1.ScanRequest{}, func(ev *threadv1.Event) error {
		c, back := ev.GetPayload().GetCompactionApplied(), ev.GetPayload().GetThreadRewound()
		if c != nil {
			through = c.GetThroughSeq()
		}
		if c != nil || back != nil {
			ev = proto.CloneOf(ev)
			ev.Payload, ev.Redacted = nil, true // neither removes anything from the journal
		}
		return t.Apply(ev)
	})
	if err != nil {
		return nil, err
	}
	for _, e := range t.Conversation {
		messages = append(messages, &orchestratorv1.ThreadMessage{Message: e.Message, Seq: e.Seq, RunId: e.RunID, Compacted: e.Seq <= through})
	}
	return messages, nil
}

func (s *threadServer) ListMessages(ctx context.Context, req *orchestratorv1.ListMessagesRequest) (*orchestratorv1.ListMessagesResponse, error) {
	all, err := s.transcript(ctx, req.GetVisibleOnly())
	if err != nil {
		return nil, err
	}
	list, next, err := page(all, "messages/"+strconv.FormatBool(req.GetVisibleOnly()), req.GetPageSize(), req.GetPageToken())
	return &orchestratorv1.ListMessagesResponse{Messages: list, NextPageToken: next}, err
}

func (s *threadServer) ListRequests(ctx context.Context, req *orchestratorv1.ListRequestsRequest) (*orchestratorv1.ListRequestsResponse, error) {
	if _, err := identity.ThreadFromContext(ctx); err != nil {
		return nil, err
	}
	var all []*threadv1.Event
	_, err := journal.Scan(ctx, s.Threads, &threadv1.ScanRequest{Types: []string{"request/prepared"}}, func(ev *threadv1.Event) error {
		if req.GetRunId() == "" || ev.GetRunId() == req.GetRunId() {
			all = append([]*threadv1.Event{ev}, all...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, next, err := page(all, "requests/"+req.GetRunId(), req.GetPageSize(), req.GetPageToken())
	return &orchestratorv1.ListRequestsResponse{Requests: list, NextPageToken: next}, err
}

func (s *threadServer) ForkThread(ctx context.Context, req *orchestratorv1.ForkThreadRequest) (*orchestratorv1.ForkThreadResponse, error) {
	if _, err := identity.ThreadFromContext(ctx); err != nil {
		return nil, err
	}
	t, err := s.between(ctx, req.GetAtSeq())
	if err != nil {
		return nil, err
	}
	to := req.GetToSession()
	if to == "" {
		to = run.NewSession()
	}
	resp, err := s.Threads.Fork(ctx, &threadv1.ForkRequest{AtSeq: t.Seq, ToSession: to})
	if err != nil {
		return nil, err
	}
	return &orchestratorv1.ForkThreadResponse{Thread: resp.GetHead()}, nil
}

func (s *threadServer) CompactThread(ctx context.Context, req *orchestratorv1.CompactThreadRequest) (*orchestratorv1.CompactThreadResponse, error) {
	ctx, id, _, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	applied, err := s.Runs.Compact(ctx, id, int(req.GetKeepMessages()))
	return &orchestratorv1.CompactThreadResponse{Compaction: applied}, err
}

func (s *threadServer) ExportThread(req *orchestratorv1.ExportThreadRequest, stream grpc.ServerStreamingServer[orchestratorv1.ExportThreadResponse]) error {
	all, err := s.transcript(stream.Context(), false)
	if err != nil {
		return err
	}
	sent := int64(0)
	for _, m := range all {
		if m.GetMessage().GetRole() == threadv1.Role_ROLE_TOOL && !req.GetIncludeToolResults() {
			continue
		}
		line, err := protojson.Marshal(m)
		if err != nil {
			return err
		}
		if err := stream.Send(&orchestratorv1.ExportThreadResponse{Item: &orchestratorv1.ExportThreadResponse_Lines{Lines: string(line) + "\n"}}); err != nil {
			return err
		}
		sent++
	}
	return stream.Send(&orchestratorv1.ExportThreadResponse{Item: &orchestratorv1.ExportThreadResponse_End{End: &orchestratorv1.ExportThreadEnd{Messages: sent}}})
}

func (s *threadServer) DeleteThread(ctx context.Context, _ *orchestratorv1.DeleteThreadRequest) (*orchestratorv1.DeleteThreadResponse, error) {
	if _, err := identity.ThreadFromContext(ctx); err != nil {
		return nil, err
	}
	head, err := s.Threads.Head(ctx, &threadv1.HeadRequest{})
	if errdefs.ReasonOf(err) == "THREAD_NOT_FOUND" {
		return &orchestratorv1.DeleteThreadResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if h := head.GetHead(); h.GetOpenRunId() != "" && !h.GetSuspended() {
		return nil, errdefs.New(errdefs.ErrAborted, run.Domain, "THREAD_BUSY", "a run works on the thread; cancel it first").With("run_id", h.GetOpenRunId())
	}
	if err := s.Runs.Settle(ctx); err != nil {
		return nil, err
	}
	resp, err := s.Threads.Delete(ctx, &threadv1.DeleteRequest{})
	if err != nil {
		return nil, err
	}
	s.Runs.Forget(ctx)
	return &orchestratorv1.DeleteThreadResponse{Deleted: resp.GetDeleted()}, nil
}
