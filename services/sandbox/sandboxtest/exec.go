package sandboxtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

var execCases = []Case{
	{"a command gives its streams, its code and what it used", func(tb testing.TB, e *Env) {
		resp := e.run(tb, e.As("ana"), "echo out; echo err >&2; exit 3")
		want(tb, "stdout", resp.GetStdout().GetText(), "out\n")
		want(tb, "stderr", resp.GetStderr().GetText(), "err\n")
		want(tb, "code", resp.GetExit().GetCode(), 3)
		want(tb, "state", resp.GetExit().GetState(), pb.ExecState_EXEC_STATE_EXITED)
		if resp.GetExit().GetWallTime().AsDuration() <= 0 || resp.GetStarted().GetExecId() == "" || resp.GetStarted().GetGeneration() != 1 {
			tb.Errorf("incomplete: %v", resp)
		}
	}},
	{"large output keeps head and tail and the rest can be fetched", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		resp := e.run(tb, ctx, "echo first; head -c 8388608 /dev/zero | tr '\\0' x; echo last; head -c 8388608 /dev/zero | tr '\\0' y >&2")
		x := resp.GetExit()
		want(tb, "stdout bytes", x.GetStdoutBytes(), 8388608+11)
		want(tb, "stderr bytes", x.GetStderrBytes(), 8388608)
		want(tb, "truncated", x.GetTruncated(), true)
		out := resp.GetStdout()
		if !strings.HasPrefix(string(out.GetHead()), "first\n") || !strings.HasSuffix(string(out.GetTail()), "last\n") {
			tb.Errorf("head %.20q tail %.20q", out.GetHead(), out.GetTail())
		}
		want(tb, "kept and left out", int64(len(out.GetHead())+len(out.GetTail()))+out.GetOmittedBytes(), 8388608+11)
		stream, err := e.Sandbox.AttachProcess(ctx, &pb.AttachProcessRequest{SandboxId: "-", ExecId: resp.GetStarted().GetExecId()})
		if err != nil {
			tb.Fatal(err)
		}
		t := follow(tb, stream.Recv)
		want(tb, "fetched", len(t.out)+len(t.errOut), 2*8388608+11)
	}},
	{"output that is not UTF-8 keeps the code and the bytes", func(tb testing.TB, e *Env) {
		resp := e.run(tb, e.As("ana"), `printf '\377\376A'; exit 3`)
		want(tb, "bytes", string(resp.GetStdout().GetHead()), "\xff\xfeA")
		want(tb, "text", resp.GetStdout().GetText(), "\uFFFDA")
		want(tb, "replaced", resp.GetStdout().GetReplaced(), true)
		want(tb, "code", resp.GetExit().GetCode(), 3)
	}},
	{"a stream takes input and signals", func(tb testing.TB, e *Env) {
		stream, err := e.Sandbox.Exec(e.As("ana"))
		if err != nil {
			tb.Fatal(err)
		}
		send := func(r *pb.ExecRequest) {
			if err := stream.Send(r); err != nil {
				tb.Fatal(err)
			}
		}
		send(&pb.ExecRequest{Part: &pb.ExecRequest_Start{Start: &pb.ExecStart{Stdin: true, Command: script("trap 'echo caught; exit 4' USR1; read a; echo got:$a; while :; do sleep 0.01; done")}}})
		send(&pb.ExecRequest{Part: &pb.ExecRequest_Stdin{Stdin: []byte("hello\n")}})
		signalled := false
		t := follow(tb, func() (*pb.ExecResponse, error) {
			ev, err := stream.Recv()
			if err == nil && ev.GetStdout() != nil && !signalled {
				signalled = true
				send(&pb.ExecRequest{Part: &pb.ExecRequest_Signal{Signal: &pb.ExecSignal{Signal: 10}}})
			}
			return ev, err
		})
		want(tb, "output", t.out, "got:hello\ncaught\n")
		want(tb, "code", t.exit.GetCode(), 4)
	}},
	{"input of a unary call, and none", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		resp, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"wc", "-c"}}, Stdin: []byte(strings.Repeat("x", 300_000))})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "wc", strings.TrimSpace(resp.GetStdout().GetText()), "300000")
		want(tb, "without", e.out(tb, ctx, "cat; echo end"), "end\n")
	}},
	{"a time limit ends the whole tree", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		start := time.Now()
		resp, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{
			Script: []byte("sleep 4001 & (setsid sleep 4002 &) ; sleep 4003"), HardLimit: durationpb.New(300 * time.Millisecond),
		}})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "timed out", resp.GetExit().GetTimedOut(), true)
		if d := time.Since(start); d > 3*time.Second {
			tb.Errorf("it took %s", d)
		}
		want(tb, "left", strings.TrimSpace(e.out(tb, ctx, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 40[0]' || true")), "0")
	}},
	{"a background child never blocks the call", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		for _, s := range []string{"sleep 300 & echo ready", "setsid sleep 300 & disown; echo ready", "nohup sleep 300 >/dev/null 2>&1 & echo ready"} {
			start := time.Now()
			resp := e.run(tb, ctx, s)
			want(tb, s, resp.GetStdout().GetText(), "ready\n")
			want(tb, s, resp.GetExit().GetLeftBehind(), true)
			if d := time.Since(start); d > 2*time.Second {
				tb.Errorf("%q took %s", s, d)
			}
		}
	}},
	{"a background command is listed, followed and killed", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		resp, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Script: []byte("echo up; sleep 300"), Background: true}})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "state", resp.GetExit().GetState(), pb.ExecState_EXEC_STATE_RUNNING)
		id := resp.GetStarted().GetExecId()
		list, err := e.Sandbox.ListProcesses(ctx, &pb.ListProcessesRequest{SandboxId: "-", RunningOnly: true})
		if err != nil || len(list.GetRecords()) != 1 || list.GetRecords()[0].GetExecId() != id {
			tb.Fatalf("ListProcesses: %v %v", list, err)
		}
		stream, err := e.Sandbox.AttachProcess(ctx, &pb.AttachProcessRequest{SandboxId: "-", ExecId: id})
		if err != nil {
			tb.Fatal(err)
		}
		killed := false
		t := follow(tb, func() (*pb.AttachProcessResponse, error) {
			ev, err := stream.Recv()
			if err == nil && ev.GetStdout() != nil && !killed {
				killed = true
				if _, err := e.Sandbox.SignalProcess(ctx, &pb.SignalProcessRequest{SandboxId: "-", ExecId: id, Signal: 9}); err != nil {
					tb.Error(err)
				}
			}
			return ev, err
		})
		want(tb, "output", t.out, "up\n")
		want(tb, "signal", t.exit.GetSignal(), 9)
		_, err = e.Sandbox.SignalProcess(ctx, &pb.SignalProcessRequest{SandboxId: "-", ExecId: id})
		refused(tb, "signal after the end", err, errdefs.ErrFailedPrecondition, "EXEC_ENDED")
		_, err = e.Sandbox.SignalProcess(ctx, &pb.SignalProcessRequest{SandboxId: "-", ExecId: "x0"})
		refused(tb, "signal of nothing", err, errdefs.ErrNotFound, "EXEC_NOT_FOUND")
	}},
	{"a client that goes away stops the command only if it asked for that", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		running := func(id string) bool {
			r, err := e.Sandbox.GetExecRecord(ctx, &pb.GetExecRecordRequest{SandboxId: "-", ExecId: id})
			return err == nil && r.GetRecord().GetExit().GetState() == pb.ExecState_EXEC_STATE_RUNNING
		}
		var ids []string
		for _, stop := range []bool{false, true} {
			gone, cancel := context.WithCancel(ctx)
			stream, err := e.Sandbox.Exec(gone)
			if err != nil {
				tb.Fatal(err)
			}
			if err := stream.Send(&pb.ExecRequest{Part: &pb.ExecRequest_Start{Start: &pb.ExecStart{Command: script("sleep 300"), CancelOnDisconnect: stop}}}); err != nil {
				tb.Fatal(err)
			}
			ev, err := stream.Recv()
			if err != nil {
				tb.Fatal(err)
			}
			cancel()
			ids = append(ids, ev.GetStarted().GetExecId())
		}
		// The one that was left first would have been stopped first.
		eventually(tb, "stopped", func() bool { return !running(ids[1]) })
		want(tb, "goes on", running(ids[0]), true)
		if _, err := e.Sandbox.SignalProcess(ctx, &pb.SignalProcessRequest{SandboxId: "-", ExecId: ids[0], Signal: 9}); err != nil {
			tb.Error(err)
		}
	}},
	{"an effect happens once, however often and at once it is asked for", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		once := withEffect(ctx, "one")
		var all sync.WaitGroup
		ids := make([]string, 6)
		for i := range ids {
			all.Go(func() {
				resp, err := e.Sandbox.RunCommand(once, &pb.RunCommandRequest{Command: script("echo x >> count; cat count; exit 7")})
				if err != nil {
					tb.Errorf("RunCommand: %v", err)
					return
				}
				ids[i] = resp.GetStarted().GetExecId()
				if resp.GetExit().GetCode() != 7 || resp.GetStdout().GetText() != "x\n" {
					tb.Errorf("answer %d: %v", i, resp)
				}
			})
		}
		all.Wait()
		want(tb, "execs", strings.Count(strings.Join(ids, " "), ids[0]), len(ids))
		want(tb, "count", e.out(tb, ctx, "cat count"), "x\n")
		_, err := e.Sandbox.RunCommand(once, &pb.RunCommandRequest{Command: script("echo other")})
		refused(tb, "another command", err, errdefs.ErrAborted, "EFFECT_MISMATCH")
		rec, err := e.Sandbox.GetExecRecord(ctx, &pb.GetExecRecordRequest{SandboxId: "-", Effect: effectOf(once)})
		if err != nil || rec.GetRecord().GetExecId() != ids[0] || rec.GetRecord().GetExit().GetCode() != 7 || rec.GetVoided() {
			tb.Errorf("GetExecRecord: %v %v", rec, err)
		}
		_, err = e.Sandbox.GetExecRecord(ctx, &pb.GetExecRecordRequest{SandboxId: "-", Effect: effectOf(withEffect(ctx, "never"))})
		refused(tb, "an effect that never was", err, errdefs.ErrNotFound, "EXEC_NOT_FOUND")
	}},
	{"a command that is killed for memory says so", func(tb testing.TB, e *Env) {
		resp, err := e.Sandbox.RunCommand(e.As("ana"), &pb.RunCommandRequest{
			Spec:    &pb.SandboxSpec{Limits: &pb.Limits{MemoryBytes: 64 << 20}},
			Command: &pb.Command{Argv: []string{"perl", "-e", "my $x = 'a' x (1<<30); print 'ALLOWED'"}},
		})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "out of memory", resp.GetExit().GetOom(), true)
		want(tb, "code", resp.GetExit().GetCode(), 137)
		want(tb, "signal", resp.GetExit().GetSignal(), 9)
		want(tb, "start error", resp.GetExit().GetStartError(), "")
		want(tb, "stdout", resp.GetStdout().GetText(), "")
	}},
	{"malformed commands are refused", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		for name, cmd := range map[string]*pb.Command{
			"nothing": {}, "both": {Argv: []string{"a"}, Script: []byte("b")}, "blank": {Argv: []string{" "}},
			"large": {Argv: []string{"true", strings.Repeat("x", 100_000), strings.Repeat("y", 100_000)}},
		} {
			_, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: cmd})
			refused(tb, name, err, errdefs.ErrInvalidArgument, "COMMAND_INVALID")
		}
		list, err := e.Sandbox.List(ctx, &pb.ListRequest{})
		if err != nil || len(list.GetSandboxes()) != 0 {
			tb.Errorf("a refused command started a sandbox: %v %v", list, err)
		}
		resp, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"no-such-program"}}})
		if err != nil || resp.GetExit().GetCode() != 127 || resp.GetExit().GetStartReason() != "COMMAND_NOT_FOUND" {
			tb.Errorf("a missing program: %v %v", resp, err)
		}
	}},
}
