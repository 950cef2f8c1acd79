package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// backend counts what is open and damages what it is told to.
type backend struct {
	mu        sync.Mutex
	open      map[string]bool
	destroyed map[string]int
	damaged   map[string]bool
	most      int
}

func newBackend() *backend {
	return &backend{open: map[string]bool{}, destroyed: map[string]int{}, damaged: map[string]bool{}}
}

func (b *backend) Open(_ context.Context, key string) (index.Index, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] {
		panic("opened twice: " + key)
	}
	if b.damaged[key] {
		return nil, fmt.Errorf("%w: %s", index.ErrDamaged, key)
	}
	b.open[key] = true
	b.most = max(b.most, len(b.open))
	return &fake{b: b, key: key}, nil
}

func (b *backend) Destroy(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[key] {
		panic("destroyed while open: " + key)
	}
	b.destroyed[key]++
	delete(b.damaged, key)
	return nil
}

func (b *backend) Exists(context.Context, string) (int64, bool) { return 0, false }

// fake is an index that is only open or closed.
type fake struct {
	index.Index
	b      *backend
	key    string
	closed atomic.Bool
}

func (f *fake) Stats(context.Context) (index.Stats, error) { return index.Stats{}, nil }

func (f *fake) Close() error {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if f.closed.Swap(true) {
		panic("closed twice")
	}
	delete(f.b.open, f.key)
	return nil
}

func newPool(b *backend, indexes int64) *pool.Pool {
	return pool.New(b, indexes*(512<<10), slog.New(slog.DiscardHandler))
}

func TestBound(t *testing.T) {
	b := newBackend()
	p := newPool(b, 3)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 20 {
				err := p.Use(t.Context(), fmt.Sprint((n+i)%9), func(l *pool.Lease) error {
					if l.Index.(*fake).closed.Load() {
						t.Error("a closed index is in use")
					}
					return nil
				})
				if err != nil {
					t.Errorf("use: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if b.most > 3 {
		t.Errorf("%d indexes were open at once, want at most 3", b.most)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.open) != 0 {
		t.Errorf("open after Close: %v", b.open)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := p.Use(t.Context(), "k", func(*pool.Lease) error { return nil }); !errors.Is(err, pool.ErrClosed) {
		t.Errorf("use after Close: %v", err)
	}
}

func TestOldestIsClosed(t *testing.T) {
	b := newBackend()
	p := newPool(b, 2)
	defer p.Close(context.Background())
	nothing := func(*pool.Lease) error { return nil }
	for _, key := range []string{"a", "b", "a", "c"} {
		if err := p.Use(t.Context(), key, nothing); err != nil {
			t.Fatal(err)
		}
	}
	if !b.open["a"] || b.open["b"] || !b.open["c"] {
		t.Errorf("open are %v, want a and c", b.open)
	}
}

func TestFullPoolWaits(t *testing.T) {
	b := newBackend()
	p := newPool(b, 1)
	defer p.Close(context.Background())
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- p.Use(t.Context(), "a", func(*pool.Lease) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Use(ctx, "b", func(*pool.Lease) error { return nil }); !errors.Is(err, pool.ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("use while full: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := p.Use(t.Context(), "b", func(*pool.Lease) error { return nil }); err != nil {
		t.Errorf("use when there is room: %v", err)
	}
}

func TestHeals(t *testing.T) {
	b := newBackend()
	p := newPool(b, 4)
	defer p.Close(context.Background())
	b.damaged["opening"] = true
	calls := 0
	if err := p.Use(t.Context(), "opening", func(*pool.Lease) error { calls++; return nil }); err != nil || calls != 1 {
		t.Errorf("damage at opening: %v, %d calls", err, calls)
	}
	calls = 0
	err := p.Use(t.Context(), "using", func(*pool.Lease) error {
		if calls++; calls == 1 {
			return fmt.Errorf("search: %w", index.ErrDamaged)
		}
		return nil
	})
	if err != nil || calls != 2 || b.destroyed["using"] != 1 || p.State(t.Context(), "using").Heals != 1 {
		t.Errorf("damage in use: %v, %d calls, destroyed %v", err, calls, b.destroyed)
	}
	calls = 0
	err = p.Use(t.Context(), "always", func(*pool.Lease) error { calls++; return index.ErrDamaged })
	if !errors.Is(err, index.ErrDamaged) || calls != 3 {
		t.Errorf("damage that comes back: %v, %d calls", err, calls)
	}
}

// TestHealsWithOthersAtWork has one user find damage while others still use the index.
func TestHealsWithOthersAtWork(t *testing.T) {
	b := newBackend()
	p := newPool(b, 4)
	defer p.Close(context.Background())
	var found atomic.Bool
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := p.Use(t.Context(), "k", func(l *pool.Lease) error {
				if l.Index.(*fake).closed.Load() {
					t.Error("a closed index is in use")
				}
				if !found.Swap(true) {
					return index.ErrDamaged
				}
				return nil
			})
			if err != nil {
				t.Errorf("use: %v", err)
			}
		})
	}
	wg.Wait()
	if b.destroyed["k"] != 1 {
		t.Errorf("destroyed %d times, want once", b.destroyed["k"])
	}
}

func TestOneWriter(t *testing.T) {
	p := newPool(newBackend(), 4)
	defer p.Close(context.Background())
	var writers atomic.Int32
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			err := p.Use(t.Context(), "k", func(l *pool.Lease) error {
				if err := l.Lock(t.Context()); err != nil {
					return err
				}
				defer l.Unlock()
				if writers.Add(1) > 1 {
					t.Error("two writers at once")
				}
				writers.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
