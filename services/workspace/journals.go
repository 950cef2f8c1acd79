package workspace

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalpostgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// journals are all backends of the journal: name → how to open it. A clock of the caller's stands in for that of the database.
var journals = map[string]func(ctx context.Context, cfg Config, deps Deps) (journal.Store, error){
	BackendSQLite: func(ctx context.Context, cfg Config, deps Deps) (journal.Store, error) {
		return journalsqlite.Open(ctx, journalsqlite.Config{Path: filepath.Join(cfg.Data, "journal.db"), Now: deps.Clock, Log: deps.Logger})
	},
	BackendPostgres: func(ctx context.Context, cfg Config, deps Deps) (journal.Store, error) {
		return journalpostgres.Open(ctx, journalpostgres.Config{DSN: cfg.Postgres.Reveal(), Now: deps.Clock, Log: deps.Logger})
	},
}

// journalBackend is where the journal is kept: with the files when nothing else is said and they are in PostgreSQL.
func (c Config) journalBackend() string {
	switch {
	case c.Journal != "":
		return c.Journal
	case c.Backend == BackendPostgres:
		return BackendPostgres
	}
	return BackendSQLite
}

func openJournal(ctx context.Context, cfg Config, deps Deps) (journal.Store, error) {
	name := cfg.journalBackend()
	store, err := journals[name](ctx, cfg, deps)
	if err != nil {
		return nil, fmt.Errorf("open the %s journal: %w", name, err)
	}
	return store, nil
}
