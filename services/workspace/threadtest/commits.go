package threadtest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

var commitCases = []testCase{
	{"Commit/events come back as they were", func(e *env) {
		h := e.acquire(e.boot())
		r := e.batch(h, "one", strings.Repeat("long ", 40_000), "three")
		r.Events[0].TurnId, r.Events[0].Step, r.Events[0].Required = "turn", 3, true
		r.Events[2].Type = "x/own"
		out := e.commit(r)
		if out.GetSeq() != 3 || time.Since(out.GetCommitTime().AsTime()).Abs() > time.Minute {
			e.Errorf("outcome %v", out)
		}
		events, end, err := e.scan(&threadv1.ScanRequest{})
		e.no(err)
		for i, got := range events {
			want := proto.CloneOf(r.GetEvents()[i])
			want.Seq, want.Time = int64(i+1), out.GetCommitTime()
			if want.Type == "" {
				want.Type = "message/appended"
			}
			if len(got.GetPayloadSha256()) != 64 {
				e.Errorf("hash %q", got.GetPayloadSha256())
			}
			if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "payload_sha256")); diff != "" {
				e.Errorf("event %d (-want +got):\n%s", i+1, diff)
			}
		}
		if end.GetHead().GetSeq() != 3 || end.GetMore() {
			e.Errorf("end %v", end)
		}
	}},
	{"Commit/idempotent by batch", func(e *env) {
		h := e.acquire(e.boot())
		r := e.batch(h, "one")
		first := e.commit(r)
		e.commit(e.batch(h, "two"))
		if again := e.commit(r); again.GetSeq() != first.GetSeq() || !proto.Equal(again.GetCommitTime(), first.GetCommitTime()) {
			e.Errorf("repeat %v, want %v", again, first)
		}
		if got := e.texts(); !slices.Equal(got, []string{"one", "two"}) {
			e.Errorf("journal %v", got)
		}
		r.Events[0].RunId = "other"
		_, err := e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrAborted, threadv1.ErrorReason_ERROR_REASON_BATCH_MISMATCH)
		r = e.batch(h, "three")
		r.ExpectedSeq = 1
		_, err = e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrAborted, threadv1.ErrorReason_ERROR_REASON_SEQUENCE_CONFLICT)
	}},
	{"Commit/mail, run, timers and release in one", func(e *env) {
		h := e.acquire(e.boot())
		e.post(&threadv1.Mail{MessageId: "in", Kind: "input", Payload: []byte("hello"), Wake: true})
		if again := e.post(&threadv1.Mail{MessageId: "in", Kind: "input", Payload: []byte("hello"), Wake: true}); !again.GetDuplicate() {
			e.Error("a repeat is no duplicate")
		}
		_, err := e.Post(e.ctx, &threadv1.PostRequest{Mail: &threadv1.Mail{MessageId: "in", Kind: "input", Payload: []byte("other"), Wake: true}})
		e.want(err, errdefs.ErrAborted, threadv1.ErrorReason_ERROR_REASON_MESSAGE_MISMATCH)
		e.post(&threadv1.Mail{MessageId: "next", Kind: "input"})
		r := e.batch(h, "asked")
		r.ConsumedMessageIds = []string{"in"}
		r.RunMark = &threadv1.RunMark{RunId: "run", State: threadv1.RunState_RUN_STATE_SUSPENDED}
		r.Mail = []*threadv1.Mail{{MessageId: "expiry", Kind: "expiry", NotBeforeTime: timestamppb.New(time.Now().Add(time.Hour)), Wake: true}}
		r.Release, r.Title = true, "a title"
		out := e.commit(r)
		if len(out.GetMail()) != 1 || out.GetMail()[0].GetMessageId() != "next" {
			e.Errorf("the commit tells of %v", out.GetMail())
		}
		head := e.head()
		if !head.GetSuspended() || head.GetOpenRunId() != "run" || head.GetOwner().GetId() != "" || head.GetTitle() != "a title" || head.GetMailCount() != 2 {
			e.Errorf("head %v", head)
		}
		if due, all := e.mail(false), e.mail(true); !slices.Equal(due, []string{"next"}) || !slices.Equal(all, []string{"next", "expiry"}) {
			e.Errorf("mailbox: due %v, all %v", due, all)
		}
		h = e.acquire(h.owner)
		r = e.batch(h, "again")
		r.ConsumedMessageIds = []string{"in"}
		_, err = e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrFailedPrecondition, threadv1.ErrorReason_ERROR_REASON_MESSAGE_CONSUMED)
		r.ConsumedMessageIds = nil
		r.RunMark = &threadv1.RunMark{RunId: "run", State: threadv1.RunState_RUN_STATE_COMPLETED}
		e.commit(r)
		if head := e.head(); head.GetOpenRunId() != "" {
			e.Errorf("head %v", head)
		}
	}},
	{"Commit/the first input is the title", func(e *env) {
		h := e.acquire(e.boot())
		r := e.batch(h)
		r.Events = []*threadv1.Event{{Id: "e", Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_InputReceived{InputReceived: &threadv1.InputReceived{
			Message: &threadv1.Message{Id: "m", Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_Text{Text: "\n  Please   read\nthe file"}}}},
		}}}}}
		e.commit(r)
		if got := e.head().GetTitle(); got != "Please read" {
			e.Errorf("title %q", got)
		}
	}},
	{"Commit/limits", func(e *env) {
		h := e.acquire(e.boot())
		r := e.batch(h, slices.Repeat([]string{strings.Repeat("x", 3<<20)}, 5)...)
		_, err := e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrResourceExhausted, 0)
		_, err = e.Commit(e.ctx, e.batch(h, make([]string, 300)...))
		if err == nil {
			e.Error("300 events were taken")
		}
		r = e.batch(h, "x")
		r.Events[0].Payload = nil
		_, err = e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrInvalidArgument, 0)
		r = e.batch(h, "x")
		r.RunMark = &threadv1.RunMark{RunId: "run"}
		_, err = e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrInvalidArgument, 0)
		if got := e.head().GetSeq(); got != 0 {
			e.Errorf("head at %d", got)
		}
	}},
}
