package sandboxtest

import (
	"testing"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
)

var restartCases = []Case{
	{"a killed service finds its sandboxes, their commands and their output again", func(tb testing.TB, e *Env) {
		if e.Target.Restart == nil {
			tb.Skip("this target cannot be restarted")
		}
		ctx := e.As("ana")
		run, done := withEffect(ctx, "long"), withEffect(ctx, "done")
		e.out(tb, done, "echo kept > f")
		text := script("for i in 1 2 3; do echo $i; done; while [ ! -e go ]; do sleep 0.01; done; echo 4; exit 9")
		text.Background = true
		resp, err := e.Sandbox.RunCommand(run, &pb.RunCommandRequest{Command: text})
		if err != nil {
			tb.Fatal(err)
		}
		e.connect(e.Target.Restart(tb))
		after := e.run(tb, ctx, "cat f; touch go")
		want(tb, "files", after.GetStdout().GetText(), "kept\n")
		want(tb, "sandbox", after.GetStarted().GetSandboxId(), resp.GetStarted().GetSandboxId())
		want(tb, "generation", after.GetStarted().GetGeneration(), resp.GetStarted().GetGeneration())
		stream, err := e.Sandbox.AttachProcess(ctx, &pb.AttachProcessRequest{SandboxId: "-", ExecId: resp.GetStarted().GetExecId()})
		if err != nil {
			tb.Fatal(err)
		}
		t := follow(tb, stream.Recv)
		want(tb, "output", t.out, "1\n2\n3\n4\n")
		want(tb, "code", t.exit.GetCode(), 9)
		again, err := e.Sandbox.RunCommand(done, &pb.RunCommandRequest{Command: script("echo kept > f")})
		if err != nil || !again.GetStarted().GetRepeated() {
			tb.Errorf("an effect from before: %v %v", again, err)
		}
		rec, err := e.Sandbox.GetExecRecord(ctx, &pb.GetExecRecordRequest{SandboxId: "-", Effect: effectOf(run)})
		if err != nil || rec.GetRecord().GetExit().GetCode() != 9 {
			tb.Errorf("GetExecRecord: %v %v", rec, err)
		}
	}},
}
