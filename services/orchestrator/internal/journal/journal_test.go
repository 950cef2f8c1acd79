package journal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
)

// store is a ThreadService client whose answers a test sets.
type store struct {
	threadv1.ThreadServiceClient
	mu        sync.Mutex
	heartbeat func() error
	commit    func(*threadv1.CommitRequest) error
	beats     int
	leaving   int
	commits   []*threadv1.CommitRequest
}

func (s *store) Heartbeat(ctx context.Context, req *threadv1.HeartbeatRequest, _ ...grpc.CallOption) (*threadv1.HeartbeatResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	if req.GetLeaving() {
		s.leaving++
		return &threadv1.HeartbeatResponse{}, nil
	}
	if s.heartbeat != nil {
		if err := s.heartbeat(); err != nil {
			return nil, err
		}
	}
	return &threadv1.HeartbeatResponse{Life: durationpb.New(1500 * time.Millisecond)}, nil
}

func (s *store) Acquire(context.Context, *threadv1.AcquireRequest, ...grpc.CallOption) (*threadv1.AcquireResponse, error) {
	return &threadv1.AcquireResponse{Head: &threadv1.ThreadHead{Epoch: 7, Seq: 3}, PreviousOwner: &threadv1.Owner{Id: "r0/1"}}, nil
}

func (s *store) Commit(_ context.Context, req *threadv1.CommitRequest, _ ...grpc.CallOption) (*threadv1.CommitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, req)
	if s.commit != nil {
		if err := s.commit(req); err != nil {
			return nil, err
		}
	}
	return &threadv1.CommitResponse{Seq: req.GetExpectedSeq() + int64(len(req.GetEvents())), CommitTime: timestamppb.Now()}, nil
}

func (s *store) set(heartbeat func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heartbeat = heartbeat
}

var errDown = errdefs.New(errdefs.ErrUnavailable, "", "", "down")

func owner(t *testing.T, s *store) *journal.Owner {
	t.Helper()
	o := journal.NewOwner(s, journal.Config{Replica: "r1"})
	if err := o.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return o
}

func acquire(t *testing.T, o *journal.Owner) *journal.Thread {
	t.Helper()
	th, err := o.Acquire(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

func TestAnOwnerBeatsAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		o := journal.NewOwner(s, journal.Config{Replica: "r1"})
		if err := o.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := o.Stop(context.Background()); err != nil || s.leaving != 1 || s.beats < 5 || s.beats > 8 {
			t.Errorf("%d beats, left %d times, %v", s.beats, s.leaving, err)
		}
	})
}

func TestWhatAnOwnerHoldsEndsBeforeTheStoreCouldGiveItAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		o := owner(t, s)
		time.Sleep(time.Second)
		th, was := acquire(t, o), o.ID()
		down := time.Now()
		s.set(func() error { return errDown })
		<-th.Context().Done()
		// The last heartbeat was sent at most one interval before the store went down, and an owner lives 1.5 s from it.
		if took := time.Since(down); took > 1500*time.Millisecond+journal.HeartbeatInterval {
			t.Errorf("the thread was held for %s", took)
		}
		if !errors.Is(context.Cause(th.Context()), journal.ErrLost) {
			t.Errorf("the cause is %v", context.Cause(th.Context()))
		}
		if o.ID() == was {
			t.Error("the owner goes on under its old id")
		}
		s.set(nil)
		time.Sleep(time.Second)
		if next := acquire(t, o); next.Context().Err() != nil {
			t.Error("the next life holds nothing")
		}
	})
}

func TestAnExpiredOwnerIsLostAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		o := owner(t, s)
		time.Sleep(time.Second)
		th := acquire(t, o)
		once := true
		s.set(func() error {
			if once {
				once = false
				return errdefs.New(errdefs.ErrFailedPrecondition, "gantry.thread.v1", "OWNER_EXPIRED", "expired")
			}
			return nil
		})
		time.Sleep(journal.HeartbeatInterval)
		synctest.Wait()
		if th.Context().Err() == nil {
			t.Error("the thread is still held")
		}
	})
}

func TestACommitWithoutAnAnswerIsSentAgainUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		th := acquire(t, owner(t, s))
		left := 3
		s.commit = func(*threadv1.CommitRequest) error {
			if left--; left > 0 {
				return errDown
			}
			return nil
		}
		ev := &threadv1.Event{Id: "e"}
		if _, err := th.Commit(journal.Batch{Events: []*threadv1.Event{ev}}); err != nil {
			t.Fatal(err)
		}
		if len(s.commits) != 3 || s.commits[0].GetBatchId() != s.commits[2].GetBatchId() || s.commits[2].GetEpoch() != 7 || s.commits[2].GetExpectedSeq() != 3 {
			t.Errorf("the commits are %v", s.commits)
		}
		if ev.GetSeq() != 4 || th.Seq() != 4 || ev.GetTime() == nil {
			t.Errorf("the event has %d, the thread %d", ev.GetSeq(), th.Seq())
		}
		if _, err := th.Commit(journal.Batch{}); err != nil || s.commits[3].GetBatchId() == s.commits[2].GetBatchId() {
			t.Errorf("the next batch has the same id, or failed: %v", err)
		}
	})
}

func TestAFencedCommitEndsTheThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{commit: func(*threadv1.CommitRequest) error {
			return errdefs.New(errdefs.ErrAborted, "gantry.thread.v1", "FENCED", "fenced")
		}}
		th := acquire(t, owner(t, s))
		_, err := th.Commit(journal.Batch{})
		if errdefs.ReasonOf(err) != "FENCED" || !errors.Is(context.Cause(th.Context()), journal.ErrFenced) {
			t.Errorf("%v, the thread ended by %v", err, context.Cause(th.Context()))
		}
		if n := len(s.commits); n != 1 {
			t.Errorf("%d commits were sent", n)
		}
	})
}

func TestTypes(t *testing.T) {
	for want, p := range map[string]*threadv1.EventPayload{
		"run/started":           {Kind: &threadv1.EventPayload_RunStarted{}},
		"tool/ended":            {Kind: &threadv1.EventPayload_ToolEnded{}},
		"interaction/requested": {Kind: &threadv1.EventPayload_InteractionRequested{}},
		"recovery/taken_over":   {Kind: &threadv1.EventPayload_RecoveryTakenOver{}},
		"subagent/event":        {Kind: &threadv1.EventPayload_SubagentEvent{}},
		"":                      {},
	} {
		if got := journal.TypeOf(p); got != want {
			t.Errorf("the type is %q, want %q", got, want)
		}
	}
}
