package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Sandbox works with sandboxes.
type Sandbox struct {
	Exec SandboxExec `cmd:"" help:"Run a command in the bucket's sandbox."`
	List SandboxList `cmd:"" default:"1" help:"List live sandboxes of the bucket."`
}

// SandboxExec runs a command.
type SandboxExec struct {
	Target
	Stdin   bool          `short:"i" help:"Pass the standard input on."`
	Dir     string        `help:"Working directory, relative to the workspace."`
	Limit   time.Duration `help:"When the command is ended." default:"120s"`
	Command []string      `arg:"" passthrough:"" help:"Program and arguments."`
}

// Run streams the output as it comes and ends with the exit code of the command.
func (c *SandboxExec) Run(ctx context.Context, env *Env) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Sandbox.Exec(ctx)
		if err != nil {
			return err
		}
		start := &sandboxv1.ExecStart{Stdin: c.Stdin, CancelOnDisconnect: true, Spec: &sandboxv1.SandboxSpec{Project: true}, Command: &sandboxv1.Command{
			Argv: c.Command, Cwd: c.Dir, HardLimit: durationpb.New(c.Limit),
		}}
		if err := stream.Send(&sandboxv1.ExecRequest{Part: &sandboxv1.ExecRequest_Start{Start: start}}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if c.Stdin {
			// Ends with the stream: Send fails once the command has ended, and the process ends with the command.
			go pipeStdin(env.In, stream.Send)
		}
		return c.follow(env, stream.Recv)
	})
}

func pipeStdin(in io.Reader, send func(*sandboxv1.ExecRequest) error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && send(&sandboxv1.ExecRequest{Part: &sandboxv1.ExecRequest_Stdin{Stdin: append([]byte(nil), buf[:n]...)}}) != nil {
			return
		}
		if err != nil {
			_ = send(&sandboxv1.ExecRequest{Part: &sandboxv1.ExecRequest_CloseStdin{CloseStdin: &sandboxv1.CloseStdin{}}}) // the command may have ended
			return
		}
	}
}

func (c *SandboxExec) follow(env *Env, recv func() (*sandboxv1.ExecResponse, error)) error {
	for {
		msg, err := recv()
		if errors.Is(err, io.EOF) {
			return errdefs.New(errdefs.ErrUnavailable, "gantry.cli", "STREAM_BROKEN", "the stream ended without saying how the command ended")
		}
		if err != nil {
			return err
		}
		if c.JSON {
			if err := env.JSON(msg); err != nil {
				return err
			}
		} else if out := msg.GetStdout(); out != nil {
			if _, err := env.Out.Write(out.GetData()); err != nil {
				return err
			}
		} else if out := msg.GetStderr(); out != nil {
			if _, err := env.Err.Write(out.GetData()); err != nil {
				return err
			}
		}
		if exit := msg.GetExit(); exit != nil {
			return ended(exit)
		}
	}
}

func ended(exit *sandboxv1.ExecExit) error {
	switch {
	case exit.GetStartError() != "":
		return errdefs.New(errdefs.ErrFailedPrecondition, "gantry.cli", exit.GetStartReason(), "%s", exit.GetStartError())
	case exit.GetTimedOut():
		return errdefs.New(errdefs.ErrDeadlineExceeded, "gantry.cli", "TIMED_OUT", "the command was ended after %s; --limit gives it more", exit.GetWallTime().AsDuration().Round(time.Millisecond))
	case exit.GetOom():
		return errdefs.New(errdefs.ErrResourceExhausted, "gantry.cli", "OUT_OF_MEMORY", "the command used more memory than the sandbox has and was ended")
	case exit.GetCode() != 0:
		return exitCode(exit.GetCode())
	}
	return nil
}

// SandboxList lists sandboxes.
type SandboxList struct {
	Target
	AllBuckets bool `name:"all-buckets" help:"Those of all buckets of the tenant."`
}

// Run lists them.
func (c *SandboxList) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Sandbox.List(ctx, &sandboxv1.ListRequest{AllBuckets: c.AllBuckets, PageToken: token})
			if err != nil {
				return "", err
			}
			for _, s := range got.GetSandboxes() {
				if c.JSON {
					if err := env.JSON(s); err != nil {
						return "", err
					}
					continue
				}
				env.Line("%s  %s  %s  %d running  %s", s.GetSandboxId(), strings.ToLower(strings.TrimPrefix(s.GetState().String(), "SANDBOX_STATE_")), s.GetDriver(), s.GetRunningExecs(), s.GetBucket())
			}
			return got.GetNextPageToken(), nil
		})
	})
}
