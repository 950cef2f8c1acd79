package task

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/task/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// backends are the stores by name.
var backends = map[string]func(ctx context.Context, cfg Config, now func() time.Time) (task.Store, error){
	"sqlite": func(ctx context.Context, cfg Config, now func() time.Time) (task.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: cfg.Database, Now: now})
	},
}
