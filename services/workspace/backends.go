package workspace

import (
	"context"
	"path/filepath"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// The backends.
const (
	// BackendLocal keeps plain files.
	BackendLocal = "local"
	// BackendSQLite keeps one database file.
	BackendSQLite = "sqlite"
	// BackendPostgres is the shared store of many replicas.
	BackendPostgres = "postgres"
)

// shared are the backends whose stores several replicas use at the same time.
var shared = map[string]bool{BackendPostgres: true}

// backends are all there are: name → how to open it. Mounts are the spaces whose directory is elsewhere, for a backend of plain files.
var backends = map[string]func(ctx context.Context, cfg Config, mounts map[files.Space]string, now func() time.Time) (files.Store, error){
	BackendLocal: func(ctx context.Context, cfg Config, mounts map[files.Space]string, now func() time.Time) (files.Store, error) {
		return local.Open(ctx, local.Config{Dir: cfg.Data, Mounts: mounts, History: cfg.history()}, now)
	},
	BackendSQLite: func(ctx context.Context, cfg Config, _ map[files.Space]string, now func() time.Time) (files.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(cfg.Data, "files.db"), History: cfg.history()}, now)
	},
	BackendPostgres: func(ctx context.Context, cfg Config, _ map[files.Space]string, now func() time.Time) (files.Store, error) {
		return postgres.Open(ctx, postgres.Config{DSN: cfg.Postgres.Reveal(), History: cfg.history()}, now)
	},
}
