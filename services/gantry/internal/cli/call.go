package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// maxText is the longest text that a run takes, in bytes.
const maxText = 1 << 20

// Call calls an agent once.
type Call struct {
	Target
	Text      []string `arg:"" optional:"" help:"What to ask. \"-\" or nothing: the standard input."`
	Model     string   `help:"Model for this call, for example ollama:qwen3 or offline."`
	RequestID string   `name:"request-id" help:"Makes the call idempotent: a repeat joins the same run."`
	Busy      string   `help:"When the thread has a run: queue, steer, interrupt or refuse." enum:"queue,steer,interrupt,refuse" default:"queue"`
	Mode      string   `help:"Policy mode: default, accept_edits, explore, bypass or dont_ask." enum:",default,accept_edits,explore,bypass,dont_ask" default:""`
}

// Run makes the call and shows what happens.
func (c *Call) Run(ctx context.Context, env *Env) error {
	text := strings.Join(c.Text, " ")
	if text == "" || text == "-" {
		// One byte more than is allowed: a longer text must be refused, not cut.
		raw, err := io.ReadAll(io.LimitReader(env.In, maxText+1))
		if err != nil {
			return err
		}
		text = string(raw)
	}
	if len(text) > maxText {
		return errdefs.New(errdefs.ErrInvalidArgument, "gantry.cli", "TEXT_TOO_LONG", "the text has more than %d bytes: put it into a file (gantry fs put) and ask about that", maxText)
	}
	if strings.TrimSpace(text) == "" {
		return errdefs.New(errdefs.ErrInvalidArgument, "gantry.cli", "TEXT_EMPTY", "say what to ask the agent")
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: c.input(text)})
		if err != nil {
			return err
		}
		return show(env, c.JSON, received(stream))
	})
}

func (c *Call) input(text string) *orchestratorv1.RunInput {
	busy := map[string]orchestratorv1.BusyPolicy{
		"queue": orchestratorv1.BusyPolicy_BUSY_POLICY_QUEUE, "steer": orchestratorv1.BusyPolicy_BUSY_POLICY_STEER,
		"interrupt": orchestratorv1.BusyPolicy_BUSY_POLICY_INTERRUPT, "refuse": orchestratorv1.BusyPolicy_BUSY_POLICY_REFUSE,
	}
	in := &orchestratorv1.RunInput{Text: text, RequestId: c.RequestID, BusyPolicy: busy[c.Busy]}
	if c.Model != "" || c.Mode != "" {
		in.Spec = &orchestratorv1.AgentSpec{Model: c.Model, PolicyMode: c.Mode}
	}
	return in
}

// received adapts the streams of a call and of an attach, which carry the same events.
func received[T interface {
	GetEvent() *orchestratorv1.RunEvent
}](stream interface{ Recv() (T, error) }) func() (*orchestratorv1.RunEvent, error) {
	return func() (*orchestratorv1.RunEvent, error) {
		msg, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return msg.GetEvent(), nil
	}
}

// show prints a stream to its end. A run that did not complete is exit code 1; a suspended one says how to go on.
func show(env *Env, asJSON bool, next func() (*orchestratorv1.RunEvent, error)) error {
	renderer := NewRenderer(env.Out)
	for {
		event, err := next()
		if errors.Is(err, io.EOF) {
			return errdefs.New(errdefs.ErrUnavailable, "gantry.cli", "STREAM_BROKEN", "the stream ended without saying how the run ended; gantry run attach latest follows it")
		}
		if err != nil {
			return err
		}
		if asJSON {
			if err := env.JSON(event); err != nil {
				return err
			}
		} else {
			renderer.Event(event)
		}
		terminal := event.GetTerminal()
		if terminal == nil {
			continue
		}
		if terminal.GetOutcome() == "completed" {
			return nil
		}
		if terminal.GetOutcome() == "suspended" && !asJSON {
			env.Line("  waits for an answer: gantry run answer ID approve|deny|TEXT --session %s", terminal.GetRun().GetThread().GetSession())
		}
		return exitCode(ExitFailed)
	}
}
