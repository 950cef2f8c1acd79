// Command gantry is the whole suite in one process, and the command line for it.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/gantry-agents/gantry/services/gantry/internal/cli"
	"github.com/gantry-agents/gantry/services/sandbox"
)

func main() {
	// A sandbox begins as a copy of this program: then nothing else of it runs.
	sandbox.MaybeInit()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := cli.Main(ctx, os.Args[1:], &cli.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: version()})
	stop()
	os.Exit(code)
}

// version is that of the module, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value
		}
	}
	return info.Main.Version
}
