// Package cli is the command line of Gantry: the whole suite in one process, and a client for everything it serves.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command ran and did not reach its aim
	ExitUsage  = 2 // the command line is wrong
)

// Root is the command line.
type Root struct {
	Up      Up      `cmd:"" help:"Run the whole suite in this process, on embedded stores."`
	Demo    Demo    `cmd:"" help:"Run the suite with the example agents, make one real call, check every effect of it, and go on serving."`
	Chat    Chat    `cmd:"" help:"Talk to an agent."`
	Call    Call    `cmd:"" help:"Call an agent once."`
	Run     RunCmd  `cmd:"" help:"Follow, cancel and steer runs."`
	Agents  Agents  `cmd:"" help:"Show agents, their tools and the models."`
	Fs      Fs      `cmd:"" help:"Work with an agent's files."`
	Memory  Memory  `cmd:"" help:"Work with what agents remember."`
	Task    Task    `cmd:"" help:"Work with background tasks."`
	Sandbox Sandbox `cmd:"" help:"Work with sandboxes."`
	Thread  Thread  `cmd:"" help:"Work with conversations."`
	Doctor  Doctor  `cmd:"" help:"Say what this machine can do, and why not."`
	Bench   Bench   `cmd:"" help:"Measure the suite against bare gRPC, on this machine."`
	Version Version `cmd:"" help:"Print the version."`
}

// Version prints the version.
type Version struct {
	JSON bool `help:"Print JSON."`
}

// Run prints it.
func (c Version) Run(env *Env) error {
	if c.JSON {
		return env.Value(map[string]string{"version": env.Version})
	}
	env.Line("gantry %s", env.Version)
	return nil
}

// Main parses the arguments, runs the command and returns the exit code. An error is one readable line on the standard error.
func Main(ctx context.Context, args []string, env *Env) int {
	code := -1
	parser, err := kong.New(&Root{}, kong.Name("gantry"), kong.UsageOnError(),
		kong.Description("Evolving AI agents for many users at once. Start with: gantry demo"),
		kong.Writers(env.Out, env.Err), kong.Exit(func(c int) { code = c }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(env))
	if err != nil {
		fmt.Fprintln(env.Err, "gantry:", err)
		return ExitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	switch {
	case code >= 0: // help was shown
		return code
	case err != nil:
		fmt.Fprintf(env.Err, "gantry: %s (gantry --help shows what there is)\n", oneLine(err.Error(), 500))
		return ExitUsage
	}
	err = command.Run()
	var exit exitCode
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ExitFailed
	}
	if slices.Contains(args, "--json") {
		env.failed(err)
	} else {
		fmt.Fprintln(env.Err, "gantry:", Explain(err))
	}
	return ExitFailed
}

// failed prints an error as one object on the standard error, for programs that asked for JSON.
func (e *Env) failed(err error) {
	out := map[string]any{"message": Explain(err)}
	var typed *errdefs.Error
	if errors.As(err, &typed) {
		out["reason"], out["message"], out["details"] = typed.Reason, oneLine(typed.Message, 1000), typed.Meta
	}
	enc := json.NewEncoder(e.Err)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]any{"error": out}) // a standard error that is gone has no reader
}

// exitCode ends the program with a code of its own and no message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Explain makes one line of an error: what happened, its reason, and what to do about it where that is known.
func Explain(err error) string {
	var typed *errdefs.Error
	if !errors.As(err, &typed) {
		return oneLine(err.Error(), 1000)
	}
	text := oneLine(typed.Message, 1000)
	if typed.Reason != "" {
		text += " (" + typed.Reason + ")"
	}
	if way := wayOut(typed); way != "" {
		text += ": " + way
	}
	return text
}

// wayOut says what to do about errors that many meet.
func wayOut(e *errdefs.Error) string {
	switch {
	case e.Reason == "IDENTITY_REQUIRED":
		return "name a user with --user or a session with --session"
	case e.Reason == "AGENT_NOT_FOUND":
		return "gantry agents list shows the agents"
	case e.Reason == "MODEL_NOT_FOUND", strings.HasPrefix(e.Reason, "MODEL_UN"):
		return "gantry agents models shows the models"
	case e.Reason == "SANDBOX_UNAVAILABLE":
		return "gantry doctor says what this machine lacks"
	case errors.Is(e, errdefs.ErrUnauthenticated):
		return "give a credential with --token or GANTRY_TOKEN"
	case errors.Is(e, errdefs.ErrUnavailable) && e.Reason == "":
		return "nothing answers at the address: gantry up starts the suite, --addr names another, --local needs none"
	case e.RetryAfter > 0:
		return fmt.Sprintf("try again in %s", e.RetryAfter)
	}
	return ""
}
