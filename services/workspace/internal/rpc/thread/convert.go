package thread

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func ownerOf(o *threadv1.Owner) journal.Owner {
	return journal.Owner{ID: o.GetId(), Address: o.GetAddress()}
}

func ownerProto(o journal.Owner) *threadv1.Owner {
	if o.ID == "" {
		return nil
	}
	return &threadv1.Owner{Id: o.ID, Address: o.Address}
}

func threadProto(t identity.Thread) *commonv1.Thread {
	return &commonv1.Thread{Tenant: t.Tenant, Agent: t.Agent, User: t.User, Session: t.Session}
}

// timeProto leaves the zero time out.
func timeProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func headProto(h journal.Head) *threadv1.ThreadHead {
	out := &threadv1.ThreadHead{
		Thread: threadProto(h.Thread), Seq: h.Seq, Epoch: h.Epoch, Owner: ownerProto(h.Owner), OpenRunId: h.Run.ID, Suspended: h.Run.State == journal.RunSuspended,
		TaskId: h.Run.TaskID, CheckpointSeq: h.CheckpointSeq, CreateTime: timeProto(h.Created), UpdateTime: timeProto(h.Updated), Title: h.Title,
		MailCount: int32(h.MailCount), ForkedAtSeq: h.ForkedAt,
	}
	if h.ForkedFrom != nil {
		out.ForkedFrom = threadProto(*h.ForkedFrom)
	}
	return out
}

func headProtos(heads []journal.Head) []*threadv1.ThreadHead {
	out := make([]*threadv1.ThreadHead, len(heads))
	for i, h := range heads {
		out[i] = headProto(h)
	}
	return out
}

func claimProto(c journal.Claim) *threadv1.AcquireResponse {
	return &threadv1.AcquireResponse{Head: headProto(c.Head), PreviousOwner: ownerProto(c.Previous)}
}

// mailOf reads a message as its sender gives it.
func mailOf(m *threadv1.Mail) (journal.Mail, error) {
	out := journal.Mail{ID: m.GetMessageId(), Kind: m.GetKind(), Payload: m.GetPayload(), Wake: m.GetWake()}
	if m.GetNotBeforeTime() != nil {
		if err := m.GetNotBeforeTime().CheckValid(); err != nil {
			return out, errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "not_before_time is no time: %w", err)
		}
		out.NotBefore = m.GetNotBeforeTime().AsTime()
	}
	return out, nil
}

func mailProtos(mail []journal.Mail) []*threadv1.Mail {
	out := make([]*threadv1.Mail, len(mail))
	for i, m := range mail {
		out[i] = &threadv1.Mail{
			MessageId: m.ID, Kind: m.Kind, Payload: m.Payload, NotBeforeTime: timeProto(m.NotBefore), PostTime: timeProto(m.Posted), Order: m.Order, Wake: m.Wake,
		}
	}
	return out
}

// batchOf reads a commit.
func batchOf(r *threadv1.CommitRequest) (journal.Batch, error) {
	b := journal.Batch{
		Owner: r.GetOwnerId(), Epoch: r.GetEpoch(), ID: r.GetBatchId(), Expected: r.GetExpectedSeq(), Consume: r.GetConsumedMessageIds(),
		Release: r.GetRelease(), Title: r.GetTitle(),
	}
	for i, e := range r.GetEvents() {
		event, err := eventOf(e)
		if err != nil {
			return b, err
		}
		b.Events = append(b.Events, event)
		if hint := titleOf(e); hint != "" && b.TitleHint == "" {
			b.TitleHint, b.TitleFrom = hint, i
		}
	}
	for _, m := range r.GetMail() {
		mail, err := mailOf(m)
		if err != nil {
			return b, err
		}
		b.Mail = append(b.Mail, mail)
	}
	if r.GetRunMark() == nil {
		return b, nil
	}
	b.Run = journal.Run{ID: r.GetRunMark().GetRunId(), TaskID: r.GetRunMark().GetTaskId()}
	switch state := r.GetRunMark().GetState(); state {
	case threadv1.RunState_RUN_STATE_RUNNING:
		b.Run.State = journal.RunRunning
	case threadv1.RunState_RUN_STATE_SUSPENDED:
		b.Run.State = journal.RunSuspended
	case threadv1.RunState_RUN_STATE_COMPLETED, threadv1.RunState_RUN_STATE_FAILED, threadv1.RunState_RUN_STATE_CANCELLED:
		b.Run.State = journal.RunEnded
	default:
		return b, errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "run_mark.state %s marks no run", state)
	}
	return b, nil
}
