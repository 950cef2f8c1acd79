package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Opened is a thread as its journal tells it.
type Opened struct {
	Thread *loop.Thread
	// CheckpointSeq is the last checkpoint that could be used. 0: none.
	CheckpointSeq int64
}

// errEnough ends a scan at the event that was asked for.
var errEnough = errors.New("enough was read")

// errLater says that the last checkpoint is after the event that was asked for.
var errLater = errors.New("the checkpoint is of a later state")

// unusable is why a checkpoint, or what was folded onto it, can't be used.
type unusable struct {
	seq int64
	err error
}

func (u *unusable) Error() string { return fmt.Sprintf("checkpoint %d: %v", u.seq, u.err) }
func (u *unusable) Unwrap() error { return u.err }

// Open reads the projection of the thread of the context's identity up to an event; 0 is the head. A thread that ends before it is read to its end.
// NOT_FOUND/THREAD_NOT_FOUND when there is none.
func Open(ctx context.Context, threads threadv1.ThreadServiceClient, through int64, log *slog.Logger) (Opened, error) {
	out, err := read(ctx, threads, through, true)
	var bad *unusable
	if !errors.As(err, &bad) || ctx.Err() != nil {
		return out, err
	}
	if !errors.Is(err, errLater) {
		log.WarnContext(ctx, "a checkpoint can't be used, the whole journal is read", "seq", bad.seq, "error", bad.err)
	}
	out, err = read(ctx, threads, through, false)
	out.CheckpointSeq = 0 // those that were passed over are not to be relied on
	return out, err
}

// read folds a thread from its last checkpoint on, or from its first event.
func read(ctx context.Context, threads threadv1.ThreadServiceClient, through int64, latest bool) (Opened, error) {
	out := Opened{Thread: &loop.Thread{}}
	began, loaded := false, int64(0)
	_, err := journal.Scan(ctx, threads, &threadv1.ScanRequest{FromCheckpoint: latest}, func(ev *threadv1.Event) (err error) {
		seq := ev.GetSeq()
		if latest && !began && seq > 1 {
			if loaded = seq; through > 0 && seq > through {
				return &unusable{seq, errLater}
			}
			if out.Thread, err = load(ctx, threads, ev); err != nil {
				return &unusable{seq, err}
			}
		}
		began = true
		if through > 0 && seq > through {
			return errEnough
		}
		if ev.GetPayload().GetCheckpointWritten() != nil {
			out.CheckpointSeq = seq
		}
		if err = apply(ctx, threads, out.Thread, ev); err != nil && loaded > 0 {
			return &unusable{loaded, err} // the journal decides whose fault it is
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return out, err
}

// apply folds an event; one that moves the thread back needs what the thread was then. A checkpoint follows each, so few are read again.
func apply(ctx context.Context, threads threadv1.ThreadServiceClient, t *loop.Thread, ev *threadv1.Event) error {
	err := t.Apply(ev)
	var back *loop.Rewinding
	if !errors.As(err, &back) {
		return err
	}
	past, err := through(ctx, threads, back.To)
	if err != nil {
		return err
	}
	return t.Rewind(ev, past)
}

// through reads a thread up to an event, from its first one.
func through(ctx context.Context, threads threadv1.ThreadServiceClient, seq int64) (*loop.Thread, error) {
	if seq == 0 {
		return &loop.Thread{}, nil
	}
	past, err := read(ctx, threads, seq, false)
	if err == nil && past.Thread.Seq != seq {
		err = fmt.Errorf("the journal ends at %d, before %d", past.Thread.Seq, seq)
	}
	return past.Thread, err
}

// Fold reads every event of the thread of the context's identity and shows each to see before it is applied, with the projection of all before it.
func Fold(ctx context.Context, threads threadv1.ThreadServiceClient, see func(before *loop.Thread, ev *threadv1.Event) error) (*loop.Thread, error) {
	t := &loop.Thread{}
	_, err := journal.Scan(ctx, threads, &threadv1.ScanRequest{}, func(ev *threadv1.Event) error {
		if err := see(t, ev); err != nil {
			return err
		}
		return apply(ctx, threads, t, ev)
	})
	return t, err
}

// load reads the projection of a checkpoint and verifies it.
func load(ctx context.Context, threads threadv1.ThreadServiceClient, ev *threadv1.Event) (*loop.Thread, error) {
	c := ev.GetPayload().GetCheckpointWritten()
	if c == nil {
		return nil, fmt.Errorf("the event is %s, redacted: %t", ev.GetType(), ev.GetRedacted())
	}
	data := c.GetInline()
	if c.GetBlobSha256() != "" {
		resp, err := threads.GetBlob(ctx, &threadv1.GetBlobRequest{Sha256: c.GetBlobSha256()})
		if err != nil {
			return nil, err
		}
		data = resp.GetData()
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != c.GetBlobSha256() {
			return nil, errors.New("the blob is damaged")
		}
	}
	t, err := loop.Restore(c.GetFormat(), data)
	if err != nil {
		return nil, err
	}
	if t.Seq != c.GetThroughSeq() || t.Seq != ev.GetSeq()-1 {
		return nil, fmt.Errorf("it is of event %d and says %d", t.Seq, c.GetThroughSeq())
	}
	return t, nil
}
