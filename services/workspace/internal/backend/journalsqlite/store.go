package journalsqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Store is a [journal.Store] in one file.
type Store struct {
	*journalsql.Store
	file *database
}

var _ journal.Store = (*Store)(nil)

// database implements [journalsql.DB].
type database struct {
	db      *sql.DB
	writer  *writer
	readers chan *session
	count   int
	notify  *journalsql.Notifier
	quit    chan struct{}
	work    sync.WaitGroup
	log     *slog.Logger
}

// Open opens the journal, making or migrating the file, and removes what an interrupted Delete left.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	cfg = cfg.withDefaults()
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, failed(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, failed(err)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, failed(err)
	}
	d := &database{db: db, readers: make(chan *session, cfg.Readers), notify: journalsql.NewNotifier(), quit: make(chan struct{}), log: cfg.Log}
	defer func() {
		if err != nil {
			d.closeSessions()
			_ = db.Close()
			err = failed(err)
		}
	}()
	head, err := newSession(ctx, db)
	if err != nil {
		return nil, err
	}
	d.writer = newWriter(head, d.notify, cfg.Now)
	if err := migrate(head); err != nil {
		return nil, err
	}
	for range cfg.Readers {
		r, err := newSession(ctx, db)
		if err != nil {
			return nil, err
		}
		d.readers <- r
		d.count++
	}
	d.work.Go(d.writer.run)
	d.work.Go(d.watchOthers)
	s, err := journalsql.New(ctx, d, d.notify, cfg.Weight)
	if err != nil {
		d.stop()
		return nil, err
	}
	return &Store{Store: s, file: d}, nil
}

// dsn is the file with its settings. secure_delete overwrites what is removed: a redaction must not leave the text in a free page.
func dsn(path string) string {
	q := url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(1)", "cache_size(-8000)", "journal_size_limit(67108864)",
	}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// Close implements [journalsql.DB].
func (d *database) Close() error {
	d.stop()
	d.closeSessions()
	return failed(d.db.Close())
}

// stop ends the goroutines, after the operations that were accepted.
func (d *database) stop() {
	close(d.quit)
	d.writer.stop()
	d.work.Wait()
}

// closeSessions closes the connections, waiting for reads under way.
func (d *database) closeSessions() {
	for range d.count {
		(<-d.readers).close()
	}
	d.count = 0
	if d.writer != nil {
		d.writer.session.close()
	}
}

// Read implements [journalsql.DB], on a reading connection.
func (d *database) Read(ctx context.Context, f func(*journalsql.View) error) error {
	select {
	case <-d.quit:
		return journalsql.ErrClosed
	default:
	}
	now := d.writer.now()
	select {
	case r := <-d.readers:
		defer func() { d.readers <- r }()
		return failed(r.snapshot(now, f))
	case <-ctx.Done():
		return ctx.Err()
	case <-d.quit:
		return journalsql.ErrClosed
	}
}

// Write implements [journalsql.DB], in the next transaction of the writer.
func (d *database) Write(ctx context.Context, f func(*journalsql.Tx) error) error {
	return failed(d.writer.do(ctx, f, false))
}

// Scrub implements [journalsql.DB]: it moves the overwritten pages from the log of SQLite into the file and empties that log. Where readers are in the
// way it is done by the next one, at the latest when the store closes.
func (d *database) Scrub(ctx context.Context) {
	err := d.writer.do(ctx, func(t *journalsql.Tx) error {
		// Briefly: everybody else waits, and owners live by heartbeats.
		if err := t.Do("PRAGMA busy_timeout = 100"); err != nil {
			return err
		}
		var busy, pages, done int64
		_, err := t.Get("PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &pages, &done)
		if e := t.Do("PRAGMA busy_timeout = 5000"); err == nil {
			err = e
		}
		return err
	}, true)
	if err != nil {
		d.log.WarnContext(ctx, "journal: removed data stays in the write-ahead log for now", "error", err)
	}
}
