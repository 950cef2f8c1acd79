package postgres

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/pgnotify"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// maxKeyBytes keeps index entries below the third of a page that a B-tree of PostgreSQL takes.
	maxKeyBytes = 2600
	// migrationLock is the advisory lock under which replicas that start together migrate one after another.
	migrationLock = 0x67616e747279

	maxTries = 5

	// pollEvery is how often who waits looks although the other processes tell.
	pollEvery = 5 * time.Second
)

// Config says where the store is.
type Config struct {
	// DSN as a URL or in keyword form.
	DSN string
	// MaxConns bounds the connections of this process. 0: 16.
	MaxConns int32
	// History is the policy by which previous revisions are kept.
	History files.History
	// PollEvery is how often who waits for a change looks, although the other processes tell of theirs. 0: 5 s.
	PollEvery time.Duration
	// Log gets what nobody waits for. Nil: nothing is logged.
	Log *slog.Logger
}

// Open connects to the store and brings its tables up to date. Close it.
func Open(ctx context.Context, cfg Config, now func() time.Time) (*sqlstore.Store, error) {
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		// The error of the parser quotes the DSN, and with it the password.
		return nil, errdefs.New(errdefs.ErrInvalidArgument, fsops.Domain, "", "the DSN of the PostgreSQL store can't be parsed")
	}
	pc.MaxConns = 16
	if cfg.MaxConns > 0 {
		pc.MaxConns = cfg.MaxConns
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, mapError(err)
	}
	d := &db{pool: pool, poll: cfg.PollEvery, log: cfg.Log, statements: map[string]string{}}
	if d.poll <= 0 {
		d.poll = pollEvery
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if err := d.migrate(ctx); err != nil {
		pool.Close()
		return nil, mapError(err)
	}
	return sqlstore.New(d, now, cfg.History), nil
}

// db implements [sqlstore.DB].
type db struct {
	pool *pgxpool.Pool
	told *pgnotify.Channel
	poll time.Duration
	log  *slog.Logger

	mu         sync.Mutex
	statements map[string]string // as written → as PostgreSQL takes it
}

var parameters = regexp.MustCompile(`\?(\d+)`)

// statement gives parameters the form that PostgreSQL takes. There is a small fixed number of statements.
func (d *db) statement(text string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, ok := d.statements[text]
	if !ok {
		out = parameters.ReplaceAllString(text, "$$$1")
		d.statements[text] = out
	}
	return out
}

func (d *db) migrate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS file_migrations (name TEXT PRIMARY KEY)`); err != nil {
			return err
		}
		entries, err := migrations.ReadDir("migrations")
		if err != nil {
			return err
		}
		for _, e := range entries {
			done, err := tx.Exec(ctx, `INSERT INTO file_migrations (name) VALUES ($1) ON CONFLICT DO NOTHING`, e.Name())
			if err != nil {
				return err
			}
			if done.RowsAffected() == 0 {
				continue
			}
			text, err := migrations.ReadFile("migrations/" + e.Name())
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("migration %s: %w", e.Name(), err)
			}
		}
		return nil
	})
}

// Dialect implements [sqlstore.DB].
func (d *db) Dialect() sqlstore.Dialect {
	// An array of its own, so that the planner expects as many elements whether it knows the list or not, and plans once for all lists.
	in := func(kind string) func(string) string {
		return func(p string) string { return "= ANY (ARRAY(SELECT unnest(" + p + "::" + kind + "[])))" }
	}
	return sqlstore.Dialect{
		ForUpdate: " FOR UPDATE", TryForUpdate: " FOR UPDATE SKIP LOCKED",
		// An array of its own, whose elements are looked up by the index: of IN (SELECT …) the planner makes a scan of the whole space while it knows little of the table.
		InTexts: in("text"), InNumbers: in("bigint"),
		Texts:       func(list []string) any { return list },
		Numbers:     func(list []int64) any { return list },
		NextIDs:     "SELECT nextval(pg_get_serial_sequence('contents', 'id')) FROM generate_series(1, 100)",
		Joined:      func(a, b string) string { return a + " || " + b },
		MaxKeyBytes: maxKeyBytes,
	}
}

// Capabilities implements [sqlstore.DB].
func (d *db) Capabilities() files.Capabilities {
	return files.Capabilities{Name: "postgres", GuardsAllWriters: true, ArbitraryNames: true, Shared: true}
}

// Error implements [sqlstore.DB].
func (d *db) Error(err error) error { return mapError(err) }

// Exec implements [sqlstore.Querier].
func (d *db) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	done, err := d.pool.Exec(ctx, d.statement(statement), args...)
	return done.RowsAffected(), err
}

// Do implements [sqlstore.Querier].
func (d *db) Do(ctx context.Context, statement string, args ...any) error {
	_, err := d.Exec(ctx, statement, args...)
	return err
}

// Query implements [sqlstore.Querier].
func (d *db) Query(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	return query(ctx, d.pool, d.statement(statement), scan, args)
}

// Later implements [sqlstore.Querier].
func (d *db) Later(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	return d.Query(ctx, statement, scan, args...)
}

// Close implements [sqlstore.DB].
func (d *db) Close() error {
	if d.told != nil {
		d.told.Close()
	}
	d.pool.Close()
	return nil
}

// runner is what a pool and a connection have in common.
type runner interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query(ctx context.Context, r runner, statement string, scan func(sqlstore.Row) error, args []any) error {
	rows, err := r.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

// each passes the rows of a query to scan.
func each(rows pgx.Rows, scan func(sqlstore.Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
