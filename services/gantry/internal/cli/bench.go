package cli

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/gantry/bench"
)

// Bench measures the suite.
type Bench struct {
	Time time.Duration `help:"Time for each figure." default:"1s"`
	Only string        `help:"Only figures whose name begins so."`
}

// Run prints a table as it is measured, then one JSON object.
func (c *Bench) Run(ctx context.Context, env *Env) error {
	return bench.Run(ctx, bench.Options{Time: c.Time, Only: c.Only}, env.Out)
}
