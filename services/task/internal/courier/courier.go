// Package courier posts mail from the outbox to the mailboxes of threads, until each is accepted.
//
// Mail is stored in the transaction that ended its task, and removed only after the thread service has accepted it; its id is derived from the task's. So a crash at any point
// loses nothing, and what is posted twice is one message.
package courier

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

const (
	batch       = 64
	parallel    = 8
	postTimeout = 10 * time.Second
	longest     = 30 * time.Second
)

// Poster is what the courier needs of the thread service.
type Poster interface {
	Post(ctx context.Context, in *threadv1.PostRequest, opts ...grpc.CallOption) (*threadv1.PostResponse, error)
}

// Options are the settings of a [Courier].
type Options struct {
	// FirstWait and MaxWait are the wait after the first failed attempt, doubled up to the longest.
	FirstWait, MaxWait time.Duration
	// Token returns the credential for calls on behalf of a tenant. Nil: none is sent.
	Token func(ctx context.Context, tenant string) (string, error)
	Log   *slog.Logger
}

// Courier posts mail. Make it with [New], run it with [Courier.Run].
type Courier struct {
	engine *task.Engine
	poster Poster
	opts   Options
	poked  chan struct{}
}

// New returns a courier.
func New(engine *task.Engine, poster Poster, opts Options) *Courier {
	return &Courier{engine: engine, poster: poster, opts: opts, poked: make(chan struct{}, 1)}
}

// Signal is a listener of the store.
func (c *Courier) Signal(s task.Signal) {
	if s.Kind != task.SignalMail {
		return
	}
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

// Run posts until ctx ends. Mail that is under way then is posted again by the next run.
func (c *Courier) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(c.round(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.poked:
		}
		timer.Stop()
	}
}

// round posts everything that is due and returns how long to sleep then.
func (c *Courier) round(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		box, err := c.engine.DueMail(ctx, batch)
		if err != nil {
			if ctx.Err() == nil {
				c.opts.Log.LogAttrs(ctx, slog.LevelError, "outbox can't be read; trying again", slog.Any("error", err))
			}
			return time.Second
		}
		if len(box.Due) > 0 {
			c.postAll(ctx, box.Due)
			continue
		}
		if box.Next.IsZero() {
			return longest
		}
		return min(max(box.Next.Sub(box.Now), time.Millisecond), longest)
	}
	return 0
}

// postAll posts a batch, some at once.
func (c *Courier) postAll(ctx context.Context, mail []task.Mail) {
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for _, m := range mail {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c.handle(ctx, m)
		})
	}
	wg.Wait()
}

// handle posts one message and notes what came of it.
func (c *Courier) handle(ctx context.Context, m task.Mail) {
	err := c.post(ctx, m)
	if ctx.Err() != nil && err != nil {
		return
	}
	log := c.opts.Log.With(slog.String("task_id", m.TaskID), slog.String("message_id", m.MessageID))
	switch {
	case err == nil:
		err = c.engine.MailAccepted(ctx, m)
	case errdefs.ReasonOf(err) == reasonMessageMismatch:
		// The thread has a message of this id. Posting it again can't change that, and nothing else ever has this id.
		log.LogAttrs(ctx, slog.LevelError, "the thread holds another message under this id", slog.Any("error", err))
		err = c.engine.MailAccepted(ctx, m)
	default:
		level := slog.LevelWarn
		if m.Attempts > 0 {
			level = slog.LevelDebug
		}
		log.LogAttrs(ctx, level, "result not delivered; trying again", slog.Int("attempts", m.Attempts+1), slog.Any("error", err))
		err = c.engine.MailRefused(ctx, m, reasonText(err), c.wait(m.Attempts))
	}
	if err != nil && ctx.Err() == nil {
		log.LogAttrs(ctx, slog.LevelError, "the outbox can't be written", slog.Any("error", err))
	}
}

// reasonMessageMismatch is the reason of the thread service for a message id that holds other content.
const reasonMessageMismatch = "MESSAGE_MISMATCH"

func (c *Courier) post(ctx context.Context, m task.Mail) error {
	thread, err := identity.ParseThread(m.Thread)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	ctx = identity.NewContext(ctx, identity.Identity{Tenant: thread.Tenant, Agent: thread.Agent, User: thread.User, Session: thread.Session})
	if c.opts.Token != nil {
		token, err := c.opts.Token(ctx, thread.Tenant)
		if err != nil {
			return err
		}
		ctx = access.NewTokenContext(ctx, token)
	}
	_, err = c.poster.Post(ctx, &threadv1.PostRequest{
		Thread: &commonv1.Thread{Tenant: thread.Tenant, Agent: thread.Agent, User: thread.User, Session: thread.Session},
		Mail:   &threadv1.Mail{MessageId: m.MessageID, Kind: m.Kind, Payload: m.Payload, Wake: m.Wake},
	})
	return err
}

// wait is the time before the next attempt.
func (c *Courier) wait(failed int) time.Duration {
	wait := c.opts.FirstWait
	for range failed {
		if wait >= c.opts.MaxWait {
			break
		}
		wait *= 2
	}
	return min(wait, c.opts.MaxWait)
}

// reasonText is what is kept of an error: never the words of a transport.
func reasonText(err error) string {
	var typed *errdefs.Error
	if errors.As(err, &typed) && typed.Reason != "" {
		return typed.Reason
	}
	return errdefs.ClassOf(err).Error()
}
