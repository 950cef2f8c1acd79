package manifest

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// DefaultCacheBytes bounds the chunks that are kept in memory, and apart from them the states.
	DefaultCacheBytes = 256 << 20
	// maxSpaces bounds the spaces that are held in memory, however small.
	maxSpaces = 10_000
)

// Config holds what is the same for all drivers.
type Config struct {
	// History is the policy by which previous revisions are kept.
	History files.History
	// CacheBytes bounds the memory for recently read contents, and as much again for the states of recently used spaces. One space alone may take more. 0: DefaultCacheBytes.
	CacheBytes int64
	// Log gets what nobody waits for. Nil: none.
	Log *slog.Logger
}

// Store implements [files.Store].
type Store struct {
	driver Driver
	cfg    Config
	now    func() time.Time
	chunks *cache

	ctx    context.Context // ends when the store is closed
	cancel context.CancelFunc
	work   sync.WaitGroup // updates, looks and what runs behind them
	tend   chan struct{}  // a token for each space that is tidied up

	mu      sync.Mutex
	closed  bool
	spaces  map[files.Space]*list.Element // of *live
	order   *list.List                    // newest first
	bytes   int64
	signals map[files.Space]chan struct{} // closed at the next change of the space
}

var _ files.Store = (*Store)(nil)

// New returns a store over a driver, which it closes.
func New(driver Driver, cfg Config, now func() time.Time) *Store {
	if cfg.CacheBytes <= 0 {
		cfg.CacheBytes = DefaultCacheBytes
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		driver: driver, cfg: cfg, now: now, chunks: newCache(cfg.CacheBytes), tend: make(chan struct{}, 2),
		spaces: map[files.Space]*list.Element{}, order: list.New(), signals: map[files.Space]chan struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work.Go(func() { driver.Listen(s.ctx, s.changed) })
	return s
}

// Capabilities implements [files.Store].
func (s *Store) Capabilities() files.Capabilities { return s.driver.Capabilities() }

// Space implements [files.Store].
func (s *Store) Space(space files.Space) files.Own { return &tree{store: s, space: space} }

// Locate implements [files.Store]: there are no plain files.
func (s *Store) Locate(files.Space) (string, bool, error) { return "", false, s.open() }

// Close implements [files.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.work.Wait()
		return nil
	}
	s.closed = true
	for space, c := range s.signals {
		close(c)
		delete(s.signals, space)
	}
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	return s.driver.Close()
}

// enter counts something in work, which Close waits for. Call leave at its end.
func (s *Store) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	s.work.Add(1)
	return s.work.Done, nil
}

func (s *Store) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed()
	}
	return nil
}

func errClosed() error {
	return errdefs.New(errdefs.ErrUnavailable, fsops.Domain, "", "the store is closed")
}

// hold returns the space as it is held in memory. It stays until the returned function is called.
func (s *Store) hold(space files.Space) (*live, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed()
	}
	s.work.Add(1)
	e, ok := s.spaces[space]
	if !ok {
		e = s.order.PushFront(&live{store: s, space: space})
		s.spaces[space] = e
	}
	l := e.Value.(*live)
	l.users++
	return l, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.users--
		s.order.MoveToFront(e)
		s.evict()
		s.work.Done()
	}, nil
}

// weigh corrects what a space takes in memory, if it is held still.
func (s *Store) weigh(l *live, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, held := s.spaces[l.space]; !held || e.Value != l {
		return
	}
	s.bytes += bytes - l.bytes
	l.bytes = bytes
}

// evict lets go of the spaces that were not used for longest, while there are too many.
func (s *Store) evict() {
	for e := s.order.Back(); e != nil && (s.bytes > s.cfg.CacheBytes || s.order.Len() > maxSpaces); {
		l, before := e.Value.(*live), e.Prev()
		if l.users == 0 && before != nil {
			s.order.Remove(e)
			delete(s.spaces, l.space)
			s.bytes -= l.bytes
		}
		e = before
	}
}
