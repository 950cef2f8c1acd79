package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Migrations make the tables of package sqlstore.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Config says where the store is.
type Config struct {
	// Path of the database file. Its directory is made.
	Path string
	// History is the policy by which previous revisions are kept.
	History files.History
}

// Open opens the store, making it if need be. Close it.
func Open(ctx context.Context, cfg Config, now func() time.Time) (*sqlstore.Store, error) {
	db, err := OpenDB(ctx, cfg.Path, Migrations)
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, now, cfg.History), nil
}

// DB is an SQLite database with one writer. It implements [sqlstore.DB]; the backend local keeps its own tables in one.
type DB struct {
	lock   *os.File
	write  *sql.DB
	read   *sql.DB
	writer *writer
}

var _ sqlstore.DB = (*DB)(nil)

// OpenDB opens a database file and brings its tables up to date with the .sql files in the migrations
// directories, set by set in the order of their names.
func OpenDB(ctx context.Context, path string, migrations ...embed.FS) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, mapError(fmt.Errorf("make the directory of the store: %w", err))
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	db := &DB{lock: lock}
	if db.write, err = connect(path, "&_txlock=immediate&_pragma=synchronous(FULL)", 1); err == nil {
		err = migrate(ctx, db.write, migrations)
	}
	if err == nil {
		db.read, err = connect(path, "&_pragma=query_only(1)", max(4, runtime.GOMAXPROCS(0)))
	}
	if err != nil {
		_ = db.closeAll() // the first error is the one that counts
		return nil, mapError(err)
	}
	db.writer = startWriter(db.write)
	return db, nil
}

func connect(path, options string, most int) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-16000)" + options
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// migrate runs the migrations that the database has not seen.
func migrate(ctx context.Context, db *sql.DB, sets []embed.FS) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migrations (name TEXT NOT NULL UNIQUE)`); err != nil {
		return err
	}
	for _, set := range sets {
		if err := runSet(ctx, tx, set); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func runSet(ctx context.Context, tx *sql.Tx, set embed.FS) error {
	entries, err := set.ReadDir("migrations")
	if err != nil {
		return err
	}
	for _, e := range entries {
		done, err := tx.ExecContext(ctx, `INSERT INTO migrations (name) VALUES (?1) ON CONFLICT (name) DO NOTHING`, e.Name())
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			continue
		}
		text, err := set.ReadFile("migrations/" + e.Name())
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("migration %s: %w", e.Name(), err)
		}
	}
	return nil
}

// Dialect implements [sqlstore.DB].
func (d *DB) Dialect() sqlstore.Dialect {
	in := func(parameter string) string { return "IN (SELECT value FROM json_each(" + parameter + "))" }
	return sqlstore.Dialect{
		InTexts: in, InNumbers: in, Texts: sqlstore.JSONTexts, Numbers: sqlstore.JSONNumbers,
		// The operator makes a text of two blobs, byte for byte.
		Joined: func(a, b string) string { return "CAST(" + a + " || " + b + " AS BLOB)" },
	}
}

// Capabilities implements [sqlstore.DB].
func (d *DB) Capabilities() files.Capabilities {
	return files.Capabilities{Name: "sqlite", GuardsAllWriters: true, ArbitraryNames: true}
}

// Error implements [sqlstore.DB].
func (d *DB) Error(err error) error { return mapError(err) }

// Exec implements [sqlstore.Querier] outside of updates.
func (d *DB) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return 0, fmt.Errorf("a change outside of an update: %s", statement)
}

// Do implements [sqlstore.Querier] outside of updates.
func (d *DB) Do(ctx context.Context, statement string, args ...any) error {
	_, err := d.Exec(ctx, statement, args...)
	return err
}

// Query implements [sqlstore.Querier].
func (d *DB) Query(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	rows, err := d.read.QueryContext(ctx, statement, args...)
	return each(rows, err, scan)
}

// Later implements [sqlstore.Querier].
func (d *DB) Later(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	return d.Query(ctx, statement, scan, args...)
}

// Update implements [sqlstore.DB].
func (d *DB) Update(ctx context.Context, _ files.Space, f func(context.Context, sqlstore.Querier) error) error {
	return d.writer.do(ctx, f)
}

// Close implements [sqlstore.DB].
func (d *DB) Close() error {
	d.writer.stop()
	return d.closeAll()
}

func (d *DB) closeAll() error {
	var first error
	for _, db := range []*sql.DB{d.read, d.write} {
		if db != nil {
			if err := db.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	if err := d.lock.Close(); err != nil && first == nil {
		first = err
	}
	return first
}

// each passes the rows of a query to scan.
func each(rows *sql.Rows, err error, scan func(sqlstore.Row) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
