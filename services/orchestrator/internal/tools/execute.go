package tools

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Limits of a command that the model runs.
const (
	execDefault = 120 * time.Second
	execMax     = time.Hour
	// execGrace lies between the polite and the hard end.
	execGrace = 5 * time.Second
	// killTimeout bounds the end of a command whose call was stopped.
	killTimeout = 3 * time.Second
	// captureBytes of each stream come back; the rest stays in the log of the sandbox.
	captureBytes = 64 << 10
)

type executeIn struct {
	Command string `json:"command" jsonschema:"shell script to run; it may have many lines"`
	Dir     string `json:"working_directory,omitempty" jsonschema:"directory to run in, relative to the workspace"`
	Timeout int    `json:"timeout_seconds,omitempty" jsonschema:"at most 3600; 120 when left out"`
}

func (env Env) executeTool() tool.Tool {
	return tool.Func(tool.Spec{
		Name: "execute", EffectKind: tool.EffectExec, Subject: "command", Timeout: execMax + execGrace + waitSlack,
		Description: "Run a shell command in the sandbox of this workspace. It has no network unless the agent was given one.",
	}, env.execute)
}

func (env Env) execute(ctx context.Context, _ tool.Call, in executeIn) (tool.Result, error) {
	if strings.TrimSpace(in.Command) == "" {
		return tool.Failed("ARGUMENTS_INVALID", "The command is empty."), nil
	}
	limit := execDefault
	if in.Timeout > 0 {
		limit = min(time.Duration(in.Timeout)*time.Second, execMax)
	}
	got, err := env.Sandbox.RunCommand(ctx, &sandboxv1.RunCommandRequest{
		Spec: env.SandboxSpec, CaptureBytes: captureBytes,
		Command: &sandboxv1.Command{
			Script: []byte(in.Command), Cwd: in.Dir,
			SoftLimit: durationpb.New(limit), HardLimit: durationpb.New(limit + execGrace),
		},
	})
	if err != nil {
		if tool.MustEnd(ctx) {
			env.killCommand(ctx)
		}
		return tool.Result{}, err
	}
	return commandResult(got, limit), nil
}

// killCommand ends the command of a call that was stopped. Leaving the call does not end it, since a command must survive the loss of
// whoever waits for it.
func (env Env) killCommand(ctx context.Context) {
	id, ok := identity.FromContext(ctx)
	if !ok || id.Effect == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	got, err := env.Sandbox.GetExecRecord(ctx, &sandboxv1.GetExecRecordRequest{Effect: id.Effect})
	if err != nil {
		return // it never started, or its sandbox is gone
	}
	id.Effect = effect.Derive(id.Effect, "kill")
	_, _ = env.Sandbox.SignalProcess(identity.NewContext(ctx, id), &sandboxv1.SignalProcessRequest{
		SandboxId: got.GetRecord().GetSandboxId(), ExecId: got.GetRecord().GetExecId(), Signal: int32(syscall.SIGKILL),
	}) // an error says that it has ended
}

// commandResult shows how a command ended. A command that ends with another code than 0 has worked as a call: the code and
// the output are the answer. A call fails when the command could not start, ran out of time, or its outcome is lost.
func commandResult(got *sandboxv1.RunCommandResponse, limit time.Duration) tool.Result {
	exit := got.GetExit()
	r := tool.OK(output(got))
	switch {
	case exit.GetState() == sandboxv1.ExecState_EXEC_STATE_LOST:
		r = tool.Failed("OUTCOME_UNKNOWN", "The sandbox was lost while the command ran: whether it did its work is not known.")
		r.Status = threadv1.ToolStatus_TOOL_STATUS_UNKNOWN
	case exit.GetStartError() != "":
		r = tool.Failed(exit.GetStartReason(), "The command could not be started: "+exit.GetStartError())
	case exit.GetTimedOut():
		r = tool.Failed("TIMED_OUT", fmt.Sprintf("The command was ended after %s.\n%s", limit, output(got)))
		r.Status = threadv1.ToolStatus_TOOL_STATUS_TIMED_OUT
	case exit.GetOom():
		r = tool.Failed("OUT_OF_MEMORY", "The command used more memory than the sandbox has and was ended.\n"+output(got))
	}
	if since := got.GetStarted().GetLostChangesSinceTime(); since != nil {
		r.Text = fmt.Sprintf("[the sandbox was lost: changes since %s are gone, earlier files are back]\n", since.AsTime().Format(time.RFC3339)) + r.Text
	}
	return r.With("exit_code", exit.GetCode()).With("exec_id", got.GetStarted().GetExecId()).With("sandbox_id", got.GetStarted().GetSandboxId())
}

func output(got *sandboxv1.RunCommandResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit code %d", got.GetExit().GetCode())
	writeStream(&b, "", got.GetStdout())
	writeStream(&b, "stderr", got.GetStderr())
	if got.GetExit().GetLeftBehind() {
		b.WriteString("\n[processes that it had left behind were ended]")
	}
	return b.String()
}

func writeStream(b *strings.Builder, name string, c *sandboxv1.Capture) {
	text := strings.TrimRight(c.GetText(), "\n")
	if text == "" {
		return
	}
	if name != "" {
		b.WriteString("\n--- " + name)
	}
	b.WriteString("\n" + text)
}
