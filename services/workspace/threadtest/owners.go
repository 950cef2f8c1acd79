package threadtest

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

var ownerCases = []testCase{
	{"Acquire/one owner at a time", func(e *env) {
		a, b := e.boot(), e.boot()
		h := e.acquire(a)
		if again := e.acquire(a); again.epoch != h.epoch {
			e.Errorf("the holder got epoch %d after %d", again.epoch, h.epoch)
		}
		_, err := e.Acquire(e.ctx, &threadv1.AcquireRequest{Owner: b})
		e.want(err, errdefs.ErrFailedPrecondition, threadv1.ErrorReason_ERROR_REASON_OWNED)
		r, err := e.Acquire(e.ctx, &threadv1.AcquireRequest{Owner: b, Fence: true})
		e.no(err)
		if r.GetPreviousOwner().GetId() != a.GetId() || r.GetPreviousOwner().GetAddress() != a.GetAddress() || r.GetHead().GetEpoch() <= h.epoch {
			e.Errorf("fenced: %v", r)
		}
		_, err = e.Commit(e.ctx, e.batch(h, "late"))
		e.want(err, errdefs.ErrAborted, threadv1.ErrorReason_ERROR_REASON_FENCED)
		_, err = e.Release(e.ctx, &threadv1.ReleaseRequest{OwnerId: a.GetId(), Epoch: h.epoch})
		e.no(err)
		if e.head().GetOwner().GetId() != b.GetId() {
			e.Error("released with a stale epoch")
		}
		_, err = e.Release(e.ctx, &threadv1.ReleaseRequest{OwnerId: b.GetId(), Epoch: r.GetHead().GetEpoch()})
		e.no(err)
		e.acquire(a)
	}},
	{"Acquire/only who sends heartbeats", func(e *env) {
		_, err := e.Acquire(e.ctx, &threadv1.AcquireRequest{Owner: &threadv1.Owner{Id: "never/was"}})
		e.want(err, errdefs.ErrFailedPrecondition, threadv1.ErrorReason_ERROR_REASON_OWNER_EXPIRED)
	}},
	{"Heartbeat/leaving gives everything up", func(e *env) {
		a, b := e.boot(), e.boot()
		h := e.acquire(a)
		_, err := e.Heartbeat(e.ctx, &threadv1.HeartbeatRequest{Owner: a, Leaving: true})
		e.no(err)
		e.acquire(b)
		_, err = e.Commit(e.ctx, e.batch(h, "late"))
		e.want(err, errdefs.ErrAborted, threadv1.ErrorReason_ERROR_REASON_FENCED)
		_, err = e.Heartbeat(e.ctx, &threadv1.HeartbeatRequest{Owner: a})
		e.want(err, errdefs.ErrFailedPrecondition, threadv1.ErrorReason_ERROR_REASON_OWNER_EXPIRED)
	}},
	{"ClaimExpired/the run of a silent owner", func(e *env) {
		a, b := e.boot(), e.boot()
		e.keep(b)
		h := e.acquire(a)
		r := e.batch(h, "began")
		r.RunMark = &threadv1.RunMark{RunId: "run", State: threadv1.RunState_RUN_STATE_RUNNING}
		e.commit(r)
		c := e.claim(b)
		if c.GetHead().GetOpenRunId() != "run" || c.GetHead().GetSuspended() || c.GetPreviousOwner().GetId() != a.GetId() || c.GetHead().GetEpoch() <= h.epoch {
			e.Errorf("claim %v", c)
		}
		_, err := e.Commit(e.ctx, e.batch(h, "late"))
		e.want(err, errdefs.ErrAborted, threadv1.ErrorReason_ERROR_REASON_FENCED)
		e.commit(e.batch(held{b, c.GetHead().GetEpoch()}, "went on"))
		if got := e.texts(); !slices.Equal(got, []string{"began", "went on"}) {
			e.Errorf("journal %v", got)
		}
	}},
	{"ClaimExpired/mail wakes an idle thread", func(e *env) {
		b := e.boot()
		e.keep(b)
		e.post(&threadv1.Mail{MessageId: "quiet", Kind: "input"})
		e.post(&threadv1.Mail{MessageId: "timer", Kind: "expiry", Wake: true, NotBeforeTime: timestamppb.New(time.Now().Add(700 * time.Millisecond))})
		begin := time.Now()
		c := e.claim(b)
		if waited := time.Since(begin); waited < 300*time.Millisecond {
			e.Errorf("a timer of 0.7 s was due after %v", waited)
		}
		if c.GetHead().GetMailCount() != 2 {
			e.Errorf("claim %v", c)
		}
	}},
	{"ClaimExpired/threads of tasks are left alone", func(e *env) {
		a, b := e.boot(), e.boot()
		r := e.batch(e.acquire(a), "x")
		r.RunMark = &threadv1.RunMark{RunId: "run", State: threadv1.RunState_RUN_STATE_RUNNING, TaskId: "task"}
		r.Release = true
		e.commit(r)
		got, err := e.ClaimExpired(e.ctx, &threadv1.ClaimExpiredRequest{Owner: b, MaxThreads: 64, MaxWait: durationpb.New(0)})
		e.no(err)
		for _, c := range got.GetClaims() {
			if c.GetHead().GetThread().GetUser() == e.id.User {
				e.Errorf("claimed %v", c)
			}
		}
		if h := e.head(); h.GetTaskId() != "task" || h.GetOpenRunId() != "run" {
			e.Errorf("head %v", h)
		}
	}},
	{"Post/to a named thread", func(e *env) {
		r, err := e.Post(e.ctx, &threadv1.PostRequest{
			Thread: &commonv1.Thread{Agent: e.id.Agent, User: e.id.User, Session: "parent"}, Mail: &threadv1.Mail{MessageId: "m", Kind: "task_result", Payload: []byte("42")},
		})
		e.no(err)
		if got := r.GetHead().GetThread(); got.GetSession() != "parent" || got.GetUser() != e.id.User || got.GetTenant() == "" {
			e.Errorf("posted to %v", got)
		}
		if got := e.session("parent").mail(false); !slices.Equal(got, []string{"m"}) {
			e.Errorf("mailbox %v", got)
		}
		_, err = e.ListMail(e.ctx, &threadv1.ListMailRequest{})
		e.missing(err)
		_, err = e.Post(e.ctx, &threadv1.PostRequest{
			Thread: &commonv1.Thread{Tenant: "another tenant", Agent: "a", Session: "s"}, Mail: &threadv1.Mail{MessageId: "m", Kind: "input"},
		})
		e.want(err, errdefs.ErrPermissionDenied, 0)
	}},
}
