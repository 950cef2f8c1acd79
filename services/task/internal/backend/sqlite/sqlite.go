package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/task/internal/task"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a store in one SQLite file. It may be used by many goroutines.
type Store struct {
	cfg  Config
	id   string
	lock *os.File

	writeDB, readDB *sql.DB
	writer          *conn
	readers         chan *conn
	jobs            chan *job

	closing  chan struct{}
	finished chan struct{}
	close    sync.Once
	closeErr error

	mu        sync.Mutex
	listeners map[int]func(task.Signal)
	nextID    int
}

var _ task.Store = (*Store)(nil)

// Open opens or makes the database. A file that another process uses, that is damaged, or that a newer version made is an error.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	s := &Store{
		cfg: cfg, jobs: make(chan *job, cfg.MaxQueue), readers: make(chan *conn, cfg.Readers),
		closing: make(chan struct{}), finished: make(chan struct{}), listeners: make(map[int]func(task.Signal)),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if s.lock, err = lockFile(path + ".lock"); err != nil {
		return nil, err
	}
	if s.writeDB, s.writer, err = openWriter(ctx, path); err != nil {
		return nil, err
	}
	if s.id, err = migrate(ctx, s.writer); err != nil {
		return nil, err
	}
	if s.readDB, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	for range cfg.Readers {
		c, err := newConn(ctx, s.readDB)
		if err != nil {
			return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
		}
		s.readers <- c
	}
	go s.write()
	return s, nil
}

// openWriter opens the one connection that writes.
func openWriter(ctx context.Context, path string) (*sql.DB, *conn, error) {
	// A checkpoint costs two fsyncs and writes every page that changed since the last one, and a busy queue fills SQLite's default of 4 MiB of log within a
	// second: hence one every 32 MiB (8,000 pages).
	db, err := sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous(FULL)", "temp_store(MEMORY)", "cache_size(-65536)", "wal_autocheckpoint(8000)"))
	if err != nil {
		return nil, nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	c, err := newConn(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, err), db.Close())
	}
	return db, c, nil
}

func dsn(path string, pragmas ...string) string {
	query := url.Values{"_pragma": append(pragmas, "busy_timeout(5000)")}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// migrate brings the schema up to date, all or nothing, and returns the id of the store.
func migrate(ctx context.Context, c *conn) (string, error) {
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		return "", err
	}
	var version int
	if err := c.raw.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return "", fmt.Errorf("sqlite: read the version of the schema: %w", storeError(err))
	}
	if version > len(entries) {
		return "", fmt.Errorf("sqlite: the database has schema %d, this program knows %d; use a newer program", version, len(entries))
	}
	var script strings.Builder
	script.WriteString("BEGIN IMMEDIATE;\n")
	for _, entry := range entries[version:] {
		text, err := migrations.ReadFile("migrations/" + entry.Name())
		if err != nil {
			return "", err
		}
		script.Write(text)
	}
	fmt.Fprintf(&script, "INSERT INTO meta (key, value) VALUES ('store_id', '%s'), ('pruned', '0') ON CONFLICT (key) DO NOTHING;\n", strings.ToLower(rand.Text()[:10]))
	fmt.Fprintf(&script, "PRAGMA user_version = %d;\nCOMMIT;", len(entries))
	if _, err := c.raw.ExecContext(ctx, script.String()); err != nil {
		return "", fmt.Errorf("sqlite: schema: %w", storeError(err))
	}
	var id string
	err = c.raw.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'store_id'").Scan(&id)
	return id, storeError(err)
}

// View runs fn on a snapshot.
func (s *Store) View(ctx context.Context, fn func(task.ReadTx) error) error {
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	var c *conn
	select {
	case c = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return errClosed
	}
	defer func() { s.readers <- c }()
	if _, err := c.exec("BEGIN"); err != nil {
		return err
	}
	// Nothing was written; rolling back ends the snapshot even after an error.
	defer c.exec("ROLLBACK")
	return fn(&tx{conn: c, store: s, now: s.now()})
}

// now is the clock of the store.
func (s *Store) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// Listen registers a listener.
func (s *Store) Listen(fn func(task.Signal)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.nextID
	s.nextID++
	s.listeners[id] = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, id)
	}
}

// publish hands signals to the listeners.
func (s *Store) publish(signals []task.Signal) {
	if len(signals) == 0 {
		return
	}
	s.mu.Lock()
	listeners := make([]func(task.Signal), 0, len(s.listeners))
	for _, fn := range s.listeners {
		listeners = append(listeners, fn)
	}
	s.mu.Unlock()
	for _, signal := range signals {
		for _, fn := range listeners {
			fn(signal)
		}
	}
}

// Close ends what waits, lets what runs end, and releases the file.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		<-s.finished
		for range s.cfg.Readers {
			c := <-s.readers
			s.closeErr = errors.Join(s.closeErr, c.close())
		}
		s.closeErr = errors.Join(s.closeErr, s.release())
	})
	return s.closeErr
}

// release closes what is open.
func (s *Store) release() error {
	var errs []error
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	for _, db := range []*sql.DB{s.writeDB, s.readDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
