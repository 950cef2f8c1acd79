package journalsqlite

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Store is a [journal.Store] in one file.
type Store struct {
	db      *sql.DB
	writer  *writer
	readers chan *session
	count   int
	notify  *notifier
	turns   journal.Turns
	quit    chan struct{}
	once    sync.Once
	work    sync.WaitGroup
	log     *slog.Logger
}

var _ journal.Store = (*Store)(nil)

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
	s := &Store{
		db: db, readers: make(chan *session, cfg.Readers), notify: newNotifier(),
		turns: journal.Turns{Weight: cfg.Weight}, quit: make(chan struct{}), log: cfg.Log,
	}
	defer func() {
		if err != nil {
			s.closeSessions()
			_ = db.Close()
			err = failed(err)
		}
	}()
	head, err := newSession(ctx, db)
	if err != nil {
		return nil, err
	}
	s.writer = newWriter(head, s.notify, cfg.Now)
	if err := migrate(head); err != nil {
		return nil, err
	}
	for range cfg.Readers {
		r, err := newSession(ctx, db)
		if err != nil {
			return nil, err
		}
		s.readers <- r
		s.count++
	}
	s.work.Go(s.writer.run)
	s.work.Go(s.watchOthers)
	if err := s.finishRemovals(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// dsn is the file with its settings. secure_delete overwrites what is removed: a redaction must not leave the text in a free page.
func dsn(path string) string {
	q := url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(1)", "cache_size(-8000)", "journal_size_limit(67108864)",
	}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// Close implements [journal.Store].
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.stop()
		s.closeSessions()
		err = s.db.Close()
	})
	if err != nil {
		return failed(err)
	}
	return nil
}

// stop ends the goroutines, after the operations that were accepted.
func (s *Store) stop() {
	close(s.quit)
	s.writer.stop()
	s.work.Wait()
}

// closeSessions closes the connections, waiting for reads under way.
func (s *Store) closeSessions() {
	for range s.count {
		(<-s.readers).close()
	}
	s.count = 0
	if s.writer != nil {
		s.writer.session.close()
	}
}

// read runs f on a reading connection, in one state of the store.
func (s *Store) read(ctx context.Context, f func(*session) error) error {
	select {
	case <-s.quit:
		return errClosed
	default:
	}
	select {
	case r := <-s.readers:
		defer func() { s.readers <- r }()
		return failed(r.snapshot(f))
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed
	}
}

// write runs f in the next transaction and returns when that is durable.
func (s *Store) write(ctx context.Context, f func(*tx) error) error {
	return failed(s.writer.do(ctx, f, false))
}

// writing is [Store.write] for an operation with a result. The result is read only when the operation has ended: a caller that gives up leaves
// it behind running.
func writing[R any](ctx context.Context, s *Store, f func(*tx) (R, error)) (R, error) {
	var out, none R
	err := s.write(ctx, func(t *tx) (err error) {
		out, err = f(t)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// isTyped says whether err is one that the caller shall see as it is.
func isTyped(err error) bool {
	var typed interface{ Public() string }
	return errors.As(err, &typed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
