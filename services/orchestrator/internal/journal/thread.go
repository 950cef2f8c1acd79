package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// commitRetry is the wait between two attempts to get an answer for a batch.
const commitRetry = 50 * time.Millisecond

// commitAttempt bounds one attempt.
const commitAttempt = 5 * time.Second

// Thread is a thread that this owner holds. It is for one goroutine, but for Context and Lost.
type Thread struct {
	owner   *Owner
	boot    *boot
	epoch   int64
	seq     int64
	batches int
	before  string
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

// Batch is what one commit changes.
type Batch struct {
	Events   []*threadv1.Event
	Consumed []string
	Mark     *threadv1.RunMark
	Mail     []*threadv1.Mail
	Title    string
	Release  bool
}

// Committed is the answer to a commit.
type Committed struct {
	// Time is when the store committed.
	Time time.Time
	// Mail is due and not consumed, the oldest first, at most 64.
	Mail []*threadv1.Mail
}

// Acquire takes the thread of the context's identity. FAILED_PRECONDITION/OWNED while another owner lives, unless fence is set.
func (o *Owner) Acquire(ctx context.Context, fence bool) (*Thread, error) {
	b := o.current()
	if b == nil {
		return nil, errdefs.New(errdefs.ErrUnavailable, threadDomain, "OWNER_EXPIRED", "this replica is not started")
	}
	for attempt := 0; ; attempt++ {
		resp, err := o.client.Acquire(ctx, &threadv1.AcquireRequest{Owner: &threadv1.Owner{Id: b.id, Address: o.cfg.Address}, Fence: fence})
		if err == nil {
			return o.hold(ctx, b, resp), nil
		}
		// The very first heartbeat may still be on its way.
		if errdefs.ReasonOf(err) != "OWNER_EXPIRED" || attempt >= 40 {
			return nil, err
		}
		if err := pause(ctx, commitRetry); err != nil {
			return nil, err
		}
		b = o.current()
	}
}

// Confirm is [Owner.Acquire] for a thread that was claimed before; nil: it was not. What the claim told of the owner before stays.
func (o *Owner) Confirm(ctx context.Context, claimed *Thread, fence bool) (*Thread, error) {
	t, err := o.Acquire(ctx, fence)
	if claimed != nil {
		claimed.Abandon(nil)
		if err == nil {
			t.before = claimed.before
		}
	}
	return t, err
}

// hold makes a thread of what the store gave.
func (o *Owner) hold(ctx context.Context, b *boot, resp *threadv1.AcquireResponse) *Thread {
	t := &Thread{owner: o, boot: b, epoch: resp.GetHead().GetEpoch(), seq: resp.GetHead().GetSeq(), before: resp.GetPreviousOwner().GetId()}
	// The thread's context ends with the boot that holds it, whatever the caller's does.
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(b.ctx, func() { cancel(context.Cause(b.ctx)) })
	t.ctx, t.cancel = base, func(cause error) { stop(); cancel(cause) }
	return t
}

// Claim waits for threads that nobody looks after and takes them. hold makes a thread from each: the caller gives the context with the thread's identity.
func (o *Owner) Claim(ctx context.Context, limit int32, wait time.Duration) ([]*threadv1.AcquireResponse, func(context.Context, *threadv1.AcquireResponse) *Thread, error) {
	b := o.current()
	resp, err := o.client.ClaimExpired(o.cfg.Outgoing(ctx), &threadv1.ClaimExpiredRequest{
		Owner: &threadv1.Owner{Id: b.id, Address: o.cfg.Address}, MaxThreads: limit, MaxSchema: Schema, MaxWait: duration(wait),
	})
	if err != nil {
		return nil, nil, err
	}
	return resp.GetClaims(), func(ctx context.Context, r *threadv1.AcquireResponse) *Thread { return o.hold(ctx, b, r) }, nil
}

// Context ends when the thread is lost, fenced or let go.
func (t *Thread) Context() context.Context { return t.ctx }

// Epoch is that of the acquisition.
func (t *Thread) Epoch() int64 { return t.epoch }

// Seq is the sequence of the journal's last event.
func (t *Thread) Seq() int64 { return t.seq }

// Previous is the owner before. Empty: none.
func (t *Thread) Previous() string { return t.before }

// Commit appends a batch: seq of its events is set, and their time when the answer is there. It returns only when the batch is durable, or when it is
// certain that it never will be by this owner. After an error other than one about the batch itself the thread is over.
func (t *Thread) Commit(batch Batch) (Committed, error) {
	t.batches++
	req := &threadv1.CommitRequest{
		OwnerId: t.boot.id, Epoch: t.epoch, BatchId: fmt.Sprintf("%s/%d/%d", t.boot.id, t.epoch, t.batches), ExpectedSeq: t.seq,
		Events: batch.Events, ConsumedMessageIds: batch.Consumed, RunMark: batch.Mark, Release: batch.Release, Mail: batch.Mail, Title: batch.Title,
	}
	for i, ev := range batch.Events {
		ev.Seq = t.seq + int64(i) + 1
	}
	resp, err := t.send(req)
	if err != nil {
		t.cancel(cause(err))
		return Committed{}, err
	}
	t.seq = resp.GetSeq()
	for _, ev := range batch.Events {
		ev.Time = resp.GetCommitTime()
	}
	if batch.Release {
		t.cancel(nil)
	}
	return Committed{Time: resp.GetCommitTime().AsTime(), Mail: resp.GetMail()}, nil
}

// send repeats the request until it is answered.
func (t *Thread) send(req *threadv1.CommitRequest) (*threadv1.CommitResponse, error) {
	for {
		if t.ctx.Err() != nil {
			return nil, context.Cause(t.ctx)
		}
		ctx, cancel := context.WithTimeout(t.ctx, commitAttempt)
		resp, err := t.owner.client.Commit(ctx, req)
		cancel()
		if err == nil || !unanswered(err) {
			return resp, err
		}
		if err := pause(t.ctx, commitRetry); err != nil {
			return nil, err
		}
	}
}

// unanswered says that the outcome of a commit is not known, so that the same batch must be sent again.
func unanswered(err error) bool {
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrDeadlineExceeded) || errors.Is(err, errdefs.ErrCanceled)
}

func cause(err error) error {
	if errdefs.ReasonOf(err) == "FENCED" {
		return ErrFenced
	}
	return err
}

// Mail lists what is due and not consumed.
func (t *Thread) Mail(ctx context.Context) ([]*threadv1.Mail, error) {
	resp, err := t.owner.client.ListMail(ctx, &threadv1.ListMailRequest{Limit: 256})
	return resp.GetMail(), err
}

// Release gives the thread up.
func (t *Thread) Release() error {
	if t.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.ctx, commitAttempt)
	defer cancel()
	_, err := t.owner.client.Release(ctx, &threadv1.ReleaseRequest{OwnerId: t.boot.id, Epoch: t.epoch})
	t.cancel(nil)
	return err
}

// GiveUp is [Thread.Release] whatever happened to the thread before: work on it broke off here, and somebody else may try. A thread that is another owner's by now
// is left alone by the store.
func (t *Thread) GiveUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), commitAttempt)
	defer cancel()
	_, _ = t.owner.client.Release(ctx, &threadv1.ReleaseRequest{OwnerId: t.boot.id, Epoch: t.epoch})
	t.cancel(nil)
}

// Abandon ends the thread for this owner without telling the store.
func (t *Thread) Abandon(cause error) { t.cancel(cause) }

// Scan gives the events after a sequence to each, in order, and returns the head.
func Scan(ctx context.Context, client threadv1.ThreadServiceClient, req *threadv1.ScanRequest, each func(*threadv1.Event) error) (*threadv1.ScanEnd, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Scan(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errdefs.New(errdefs.ErrUnavailable, threadDomain, "", "the scan of the thread broke off")
		}
		if err != nil {
			return nil, err
		}
		if end := msg.GetEnd(); end != nil {
			return end, nil
		}
		if err := each(msg.GetEvent()); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
