package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// keepAlive is how long a stream may be silent.
const keepAlive = 15 * time.Second

// sigKill ends a whole tree.
const sigKill = 9

// command converts a command. input is part of what an effect id stands for.
func command(c *pb.Command, stdin bool, input []byte, effect string) (sandbox.Command, error) {
	if c.GetTerminal() != nil {
		return sandbox.Command{}, sandbox.Unimplemented("terminal", "run the command without one; standard input is available")
	}
	if len(c.GetSecrets()) > 0 {
		return sandbox.Command{}, sandbox.Unimplemented("secrets", "pass what the command may know in env")
	}
	out := sandbox.Command{
		Argv: c.GetArgv(), Script: c.GetScript(), Interpreter: c.GetInterpreter(), Dir: c.GetCwd(), Stdin: stdin,
		Soft: c.GetSoftLimit().AsDuration(), Hard: c.GetHardLimit().AsDuration(), LogBytes: c.GetLogBytes(), Background: c.GetBackground(), Effect: effect,
	}
	for _, name := range slices.Sorted(maps.Keys(c.GetEnv())) {
		out.Env = append(out.Env, name+"="+c.GetEnv()[name])
	}
	if effect != "" {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil {
			return out, err
		}
		sum := sha256.New()
		sum.Write(text)
		sum.Write([]byte{0})
		sum.Write(input)
		out.Hash = hex.EncodeToString(sum.Sum(nil))
	}
	return out, out.Validate()
}

// begin holds the sandbox, projects if that is asked for, and starts the command.
func (s *Server) begin(ctx context.Context, id string, token int64, spec *pb.SandboxSpec, cmd *pb.Command, stdin bool, input []byte) (l *sandbox.Live, p sandbox.Process, release func(), err error) {
	c, err := who(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.checkEffect(c.effect); err != nil {
		return nil, nil, nil, err
	}
	run, err := command(cmd, stdin, input, c.effect)
	if err != nil {
		return nil, nil, nil, err
	}
	_, l, leave, err := s.use(ctx, id, token, spec)
	if err != nil {
		return nil, nil, nil, err
	}
	if spec.GetProject() {
		if _, err := s.m.Project(ctx, l, token, nil, false); err != nil {
			leave()
			return nil, nil, nil, err
		}
	}
	if p, err = s.m.Exec(ctx, l, run); err != nil {
		leave()
		return nil, nil, nil, err
	}
	return l, p, func() { _ = p.Close(); leave() }, nil
}

func started(l *sandbox.Live, p sandbox.Process) *pb.ExecStarted {
	spec := l.Instance.Spec()
	return &pb.ExecStarted{
		ExecId: p.ID(), SandboxId: spec.ID, Generation: spec.Generation, Repeated: p.Repeated(),
		LostChangesSinceTime: toTime(spec.LostSince), RestoredSnapshotId: spec.Restored,
	}
}

// goesOn is the last message of a call that leaves a command running in the background.
func goesOn() *pb.ExecExit { return &pb.ExecExit{State: pb.ExecState_EXEC_STATE_RUNNING} }

// abandon kills a command whose caller is gone and wanted that.
func abandon(ctx context.Context, l *sandbox.Live, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = l.Instance.Signal(ctx, id, sigKill)
}

// Exec implements SandboxService.
func (s *Server) Exec(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return sandbox.Errorf(errdefs.ErrInvalidArgument, sandbox.ReasonCommandInvalid, "the first message must be start")
	}
	l, p, release, err := s.begin(ctx, start.GetSandboxId(), start.GetFencingToken(), start.GetSpec(), start.GetCommand(), start.GetStdin(), nil)
	if err != nil {
		return err
	}
	defer release()
	if start.GetCancelOnDisconnect() {
		defer func() {
			if ctx.Err() != nil {
				abandon(ctx, l, p.ID())
			}
		}()
	}
	if err := stream.Send(&pb.ExecResponse{Event: &pb.ExecResponse_Started{Started: started(l, p)}}); err != nil {
		return err
	}
	if start.GetCommand().GetBackground() && !start.GetStdin() {
		return stream.Send(&pb.ExecResponse{Event: &pb.ExecResponse_Exit{Exit: goesOn()}})
	}
	go s.input(stream, l, p)
	return follow(ctx, p, func(e any) error {
		out := &pb.ExecResponse{}
		switch e := e.(type) {
		case *pb.ExecResponse_Stdout:
			out.Event = e
		case *pb.ExecResponse_Stderr:
			out.Event = e
		case *pb.ExecResponse_Exit:
			out.Event = e
		case *pb.ExecResponse_KeepAlive:
			out.Event = e
		}
		return stream.Send(out)
	})
}

// input passes on what the client sends, until it sends no more or the call ends.
func (s *Server) input(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse], l *sandbox.Live, p sandbox.Process) {
	for {
		req, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = p.CloseStdin()
			}
			return
		}
		// Input that the command does not want any more is no error of the call: the exit says what happened.
		switch part := req.GetPart().(type) {
		case *pb.ExecRequest_Stdin:
			_ = p.WriteStdin(part.Stdin)
		case *pb.ExecRequest_CloseStdin:
			_ = p.CloseStdin()
		case *pb.ExecRequest_Signal:
			_ = l.Instance.Signal(stream.Context(), p.ID(), int(part.Signal.GetSignal()))
		}
	}
}

// follow passes the events of an exec on, with a sign of life when there are none. The events are those of ExecResponse.
func follow(ctx context.Context, p sandbox.Process, send func(any) error) error {
	type item struct {
		event sandbox.Event
		err   error
	}
	begin := time.Now()
	items := make(chan item)
	go func() {
		defer close(items)
		for {
			e, err := p.Recv()
			select {
			case items <- item{e, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || e.Exit != nil {
				return
			}
		}
	}()
	silence := time.NewTimer(keepAlive)
	defer silence.Stop()
	var skipped, firstSkipped int64
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			err = send(&pb.ExecResponse_KeepAlive{KeepAlive: &pb.KeepAlive{Elapsed: durationpb.New(time.Since(begin))}})
		case it, ok := <-items:
			switch {
			case !ok:
				return ctx.Err()
			case it.err != nil:
				return it.err
			case it.event.Exit != nil:
				x := toExit(*it.event.Exit)
				x.Truncated, x.TruncatedOffset = skipped > 0, firstSkipped
				return send(&pb.ExecResponse_Exit{Exit: x})
			}
			o := it.event.Output
			if o.Skipped > 0 && skipped == 0 {
				firstSkipped = o.Offset - o.Skipped
			}
			skipped += o.Skipped
			out := &pb.Output{Offset: o.Offset, SkippedBytes: o.Skipped, Data: o.Data}
			if o.Stream == sandbox.Stderr {
				err = send(&pb.ExecResponse_Stderr{Stderr: out})
			} else {
				err = send(&pb.ExecResponse_Stdout{Stdout: out})
			}
		}
		if err != nil {
			return err
		}
		silence.Reset(keepAlive)
	}
}

// AttachProcess implements SandboxService.
func (s *Server) AttachProcess(req *pb.AttachProcessRequest, stream grpc.ServerStreamingServer[pb.AttachProcessResponse]) error {
	ctx := stream.Context()
	l, release, err := s.existing(ctx, req.GetSandboxId(), 0)
	if err != nil {
		return err
	}
	defer release()
	p, err := l.Instance.Attach(ctx, req.GetExecId(), req.GetOffset())
	if err != nil {
		return err
	}
	defer p.Close()
	if err := stream.Send(&pb.AttachProcessResponse{Event: &pb.AttachProcessResponse_Started{Started: started(l, p)}}); err != nil {
		return err
	}
	return follow(ctx, p, func(e any) error {
		out := &pb.AttachProcessResponse{}
		switch e := e.(type) {
		case *pb.ExecResponse_Stdout:
			out.Event = &pb.AttachProcessResponse_Stdout{Stdout: e.Stdout}
		case *pb.ExecResponse_Stderr:
			out.Event = &pb.AttachProcessResponse_Stderr{Stderr: e.Stderr}
		case *pb.ExecResponse_Exit:
			out.Event = &pb.AttachProcessResponse_Exit{Exit: e.Exit}
		case *pb.ExecResponse_KeepAlive:
			out.Event = &pb.AttachProcessResponse_KeepAlive{KeepAlive: e.KeepAlive}
		}
		return stream.Send(out)
	})
}
