package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// reconnectFirst and reconnectMost bound the pause before a watch that broke off is taken up again.
	reconnectFirst = 200 * time.Millisecond
	reconnectMost  = 10 * time.Second
)

// FsWatch follows changes.
type FsWatch struct {
	Target
	Glob   string `arg:"" optional:"" help:"Only changes of files that match."`
	Cursor string `help:"Go on after this change. Empty: from now."`
	Once   bool   `help:"Print what there is and end."`
}

// Help shows an example.
func (FsWatch) Help() string {
	return example("gantry fs watch --user ana", "gantry fs watch --once --cursor C --json --user ana") +
		"\n\nEach change has a cursor (--json), and the cursor to go on from is the last line on the standard error; it survives restarts of Gantry. " +
		"A connection that breaks off is made again, and nothing is missed or shown twice."
}

// Run prints changes until it is interrupted.
func (c *FsWatch) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		pause := reconnectFirst
		for {
			before := c.Cursor
			err := c.follow(ctx, env, clients.Files)
			switch {
			case interrupted(ctx):
				c.ended(env)
				return nil // being interrupted is how a watch ends
			case isReason(err, fsops.ReasonCursorExpired):
				return problem(errdefs.ErrOutOfRange, fsops.ReasonCursorExpired, "changes after %s are not kept any more: list the files (gantry fs ls -r) and watch without --cursor", c.Cursor)
			case err != nil && !errors.Is(err, errdefs.ErrUnavailable):
				return err
			case err == nil && c.Once:
				c.ended(env)
				return nil
			case err == nil || c.Cursor != before:
				pause = reconnectFirst // it worked for a while
			}
			if err == nil {
				continue
			}
			if c.Once {
				return err
			}
			env.Note("the connection broke off; trying again in %s", pause)
			if !sleep(ctx, pause) {
				c.ended(env)
				return nil
			}
			pause = min(2*pause, reconnectMost)
		}
	})
}

func (c *FsWatch) ended(env *Env) {
	if c.Cursor != "" && !c.JSON {
		env.Note("go on with --cursor %s", c.Cursor)
	}
}

// interrupted says whether the command is to end. The server knows the deadline too, and may end the stream a moment before the context.
func interrupted(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 100*time.Millisecond {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// sleep waits, and says whether it was not interrupted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow prints changes until the stream ends, and keeps the cursor.
func (c *FsWatch) follow(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient) error {
	req := &fsv1.WatchRequest{Cursor: c.Cursor, Glob: c.Glob}
	if c.Once {
		req.MaxWait = durationpb.New(0)
	}
	stream, err := files.Watch(ctx, req)
	if err != nil {
		return err
	}
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return problem(errdefs.ErrUnavailable, "STREAM_BROKEN", "the watch broke off")
		}
		if err != nil {
			return err
		}
		switch e := msg.GetEvent().(type) {
		case *fsv1.WatchResponse_Start:
			c.Cursor = e.Start.GetCursor()
		case *fsv1.WatchResponse_Change:
			if err := c.print(env, e.Change); err != nil {
				return err
			}
			c.Cursor = e.Change.GetCursor()
		case *fsv1.WatchResponse_End:
			c.Cursor = e.End.GetCursor()
			if c.JSON && c.Once {
				return env.JSON(msg)
			}
			return nil
		}
	}
}

func (c *FsWatch) print(env *Env, e *fsv1.Change) error {
	if c.JSON {
		return env.JSON(e)
	}
	what := strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "CHANGE_KIND_"))
	path := strings.ReplaceAll(e.GetPath(), "\n", `\n`)
	if e.GetFromPath() != "" {
		path = strings.ReplaceAll(e.GetFromPath(), "\n", `\n`) + " -> " + path
	}
	env.Line("%s  %-8s %-12s %s", secondText(e.GetTime()), what, or(e.GetAuthor(), "-"), path)
	return nil
}
