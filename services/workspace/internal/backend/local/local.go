package local

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config says where the store is.
type Config struct {
	// Dir holds everything of the store. It is made.
	Dir string
	// Mounts are spaces whose directory is elsewhere: the bucket of scope agent is the agent's workspace directory.
	Mounts map[files.Space]string
	// History is the policy by which previous revisions are kept.
	History files.History
}

// Store implements [files.Store].
type Store struct {
	cfg   Config
	index *sqlstore.Store
	stage string
	// history is the directory of previous revisions.
	history string
	now     func() time.Time

	mu       sync.Mutex
	locks    map[files.Space]*lock
	revision int64 // the last one given out
	scans    map[files.Space]time.Time
}

// lock lets one update of a space in at a time.
type lock struct {
	held  chan struct{}
	users int
	// broken says that an intent of the space could not be carried out to its end; it is tried again first.
	broken bool
}

var _ files.Store = (*Store)(nil)

// Open opens the store, making it if need be, and carries out what a crash left undone. Close it.
func Open(ctx context.Context, cfg Config, now func() time.Time) (*Store, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, diskError(err)
	}
	cfg.Dir, cfg.Mounts = dir, maps.Clone(cfg.Mounts)
	db, err := sqlite.OpenDB(ctx, filepath.Join(dir, "local.db"), sqlite.Migrations, migrations)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, now: now, stage: filepath.Join(dir, "staging"), locks: map[files.Space]*lock{}, scans: map[files.Space]time.Time{}}
	s.history = filepath.Join(dir, "history")
	s.index = sqlstore.New(named{db}, now, cfg.History)
	s.index.KeepElsewhere(s.isKept, s.dropKept)
	err = errors.Join(os.MkdirAll(s.stage, 0o700), os.MkdirAll(s.history, 0o700))
	if err == nil {
		err = s.recover(ctx, "")
	}
	if err == nil {
		err = s.clearStage()
	}
	if err == nil {
		err = s.clearHistory(ctx)
	}
	if err != nil {
		return nil, errors.Join(diskError(err), s.index.Close())
	}
	return s, nil
}

// named is the database of the index under the name of this backend.
type named struct{ *sqlite.DB }

// Capabilities implements [sqlstore.DB].
func (named) Capabilities() files.Capabilities { return capabilities }

var capabilities = files.Capabilities{Name: "local", PlainFiles: true, ArbitraryNames: true}

// Capabilities implements [files.Store].
func (s *Store) Capabilities() files.Capabilities { return capabilities }

// Mounted says whether a space has its directory elsewhere.
func (s *Store) Mounted(space files.Space) bool {
	_, ok := s.cfg.Mounts[space]
	return ok
}

// dir is the directory of a space.
func (s *Store) dir(space files.Space) string {
	if dir, ok := s.cfg.Mounts[space]; ok {
		return dir
	}
	return filepath.Join(s.cfg.Dir, "buckets", filepath.FromSlash(string(space)))
}

// root opens the directory of a space; nil when there is none and it is not to be made.
func (s *Store) root(space files.Space, create bool) (*os.Root, error) {
	dir := s.dir(space)
	if create {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, diskError(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, nil
	}
	if err != nil {
		return nil, diskError(err)
	}
	return root, nil
}

// Locate implements [files.Store].
func (s *Store) Locate(space files.Space) (string, bool, error) {
	if err := s.open(); err != nil {
		return "", false, err
	}
	dir := s.dir(space)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", false, diskError(err)
	}
	return dir, true, nil
}

func (s *Store) open() error { return s.index.Check() }

// acquire takes the lock of a space.
func (s *Store) acquire(ctx context.Context, space files.Space) (*lock, func(), error) {
	s.mu.Lock()
	l, ok := s.locks[space]
	if !ok {
		l = &lock{held: make(chan struct{}, 1)}
		s.locks[space] = l
	}
	l.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		if l.users--; l.users == 0 && !l.broken {
			delete(s.locks, space)
		}
		s.mu.Unlock()
	}
	select {
	case l.held <- struct{}{}:
		return l, func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
}

// Head implements [files.Store].
func (s *Store) Head(ctx context.Context, space files.Space) (files.Cursor, error) {
	return s.index.Head(ctx, space)
}

// Changes implements [files.Store].
func (s *Store) Changes(ctx context.Context, space files.Space, after files.Cursor, limit int) ([]files.Change, error) {
	return s.index.Changes(ctx, space, after, limit)
}

// Usage implements [files.Store]. Changes from outside count from the next scan, or the next write of the file, on.
func (s *Store) Usage(ctx context.Context, space files.Space) (files.Usage, error) {
	return s.index.Usage(ctx, space)
}

// Spaces implements [files.Store].
func (s *Store) Spaces(ctx context.Context, prefix, after files.Space, limit int) ([]files.Space, error) {
	return s.index.Spaces(ctx, prefix, after, limit)
}

// Forget implements [files.Store]. A mounted space is an engineer's directory: it is refused.
func (s *Store) Forget(ctx context.Context, space files.Space) (int64, error) {
	if err := s.open(); err != nil {
		return 0, err
	}
	if s.Mounted(space) {
		return 0, errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonReadOnly, "the bucket is the agent's workspace directory: delete its files one by one")
	}
	_, release, err := s.acquire(ctx, space)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := os.RemoveAll(s.dir(space)); err != nil {
		return 0, diskError(err)
	}
	return s.index.Forget(ctx, space)
}

// Close implements [files.Store].
func (s *Store) Close() error { return s.index.Close() }
