package cli

import (
	"context"
	"log/slog"

	"github.com/gantry-agents/gantry/libs/obs"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// Up runs the suite.
type Up struct {
	suite.Config
	Log obs.Config `embed:""`
}

// Run serves until a signal comes.
func (c *Up) Run(ctx context.Context, env *Env) error {
	log, err := obs.NewLogger(env.Err, c.Log)
	if err != nil {
		return err
	}
	s, err := suite.Start(ctx, c.Config, suite.Options{Logger: log})
	if err != nil {
		return err
	}
	rest := ""
	if s.HTTPAddress() != "" {
		rest = " and REST on http://" + s.HTTPAddress() + " (docs at /docs/)"
	}
	env.Line("Gantry serves gRPC on %s%s. Model: %s. Data: %s. Ctrl-C ends it.", s.Address(), rest, s.Model(ctx), s.Data())
	return wait(ctx, s, log)
}

// wait serves until the context ends, or a server does.
func wait(ctx context.Context, s *suite.Suite, log *slog.Logger) error {
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case <-s.Done():
	}
	return s.Stop(context.WithoutCancel(ctx))
}
