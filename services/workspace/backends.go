package workspace

import (
	"context"
	"path/filepath"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
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
	// BackendRedis is a shared store in memory with an append-only file.
	BackendRedis = "redis"
	// BackendObject is a shared store in S3, Google Cloud Storage or Azure Blob Storage.
	BackendObject = "object"
)

// shared are the backends whose stores several replicas use at the same time.
var shared = map[string]bool{BackendPostgres: true, BackendRedis: true, BackendObject: true}

// backends are all there are: name → how to open it. Mounts are the spaces whose directory is elsewhere, for a backend of plain files.
var backends = map[string]func(ctx context.Context, cfg Config, mounts map[files.Space]string, deps Deps) (files.Store, error){
	BackendLocal: func(ctx context.Context, cfg Config, mounts map[files.Space]string, deps Deps) (files.Store, error) {
		return local.Open(ctx, local.Config{Dir: cfg.Data, Mounts: mounts, History: cfg.history()}, deps.Clock)
	},
	BackendSQLite: func(ctx context.Context, cfg Config, _ map[files.Space]string, deps Deps) (files.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(cfg.Data, "files.db"), History: cfg.history()}, deps.Clock)
	},
	BackendPostgres: func(ctx context.Context, cfg Config, _ map[files.Space]string, deps Deps) (files.Store, error) {
		return postgres.Open(ctx, postgres.Config{DSN: cfg.Postgres.Reveal(), History: cfg.history(), Log: deps.Logger}, deps.Clock)
	},
	BackendRedis: func(ctx context.Context, cfg Config, _ map[files.Space]string, deps Deps) (files.Store, error) {
		return redis.Open(ctx, redis.Config{URL: cfg.Redis.Reveal(), Config: cfg.manifest(deps)}, deps.Clock)
	},
	BackendObject: func(ctx context.Context, cfg Config, _ map[files.Space]string, deps Deps) (files.Store, error) {
		return object.Open(ctx, object.Config{URL: cfg.Object, Config: cfg.manifest(deps)}, deps.Clock)
	},
}

// manifest is what redis and object have in common.
func (c Config) manifest(deps Deps) manifest.Config {
	return manifest.Config{History: c.history(), CacheBytes: c.CacheBytes, Log: deps.Logger}
}
