package manifest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// memory is a driver whose objects are in memory. Several stores may use one.
type memory struct {
	mu      sync.Mutex
	entries map[string][]byte
	marks   map[string]mark
	chunks  map[string]stamped
	staged  map[string]stamped
	names   map[files.Space]bool
	now     func() time.Time
	trust   time.Duration
	// before runs ahead of each call, without the lock; an error is the outcome of the call. after runs behind it.
	before, after func(call string) error
	calls         map[string]int
}

type stamped struct {
	data []byte
	at   time.Time
}

type mark struct {
	number int64
	stamped
}

func newMemory() *memory {
	return &memory{
		entries: map[string][]byte{}, marks: map[string]mark{}, chunks: map[string]stamped{}, staged: map[string]stamped{}, names: map[files.Space]bool{},
		now: time.Now, calls: map[string]int{},
	}
}

func key(space files.Space, what any) string { return fmt.Sprintf("%q %v", space, what) }

// do runs one call.
func (m *memory) do(ctx context.Context, call string, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.before != nil {
		if err := m.before(call); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.calls[call]++
	f()
	m.mu.Unlock()
	if m.after != nil {
		return m.after(call)
	}
	return nil
}

func (m *memory) Capabilities() files.Capabilities {
	return files.Capabilities{Name: "memory", GuardsAllWriters: true, ArbitraryNames: true, Shared: true}
}
func (m *memory) Trust() time.Duration     { return m.trust }
func (m *memory) PollEvery() time.Duration { return 20 * time.Millisecond }
func (m *memory) Close() error             { return nil }

func (m *memory) Listen(context.Context, func(files.Space)) {}

func (m *memory) Create(ctx context.Context, space files.Space, _, at manifest.Position, data []byte) error {
	taken := false
	err := m.do(ctx, "create", func() {
		m.names[space] = true
		if _, taken = m.entries[key(space, at.Number)]; !taken {
			m.entries[key(space, at.Number)] = slices.Clone(data)
		}
	})
	if err == nil && taken {
		return manifest.ErrTaken
	}
	return err
}

func (m *memory) After(ctx context.Context, space files.Space, at manifest.Position, limit int) (out []manifest.Entry, err error) {
	lost := false
	err = m.do(ctx, "after", func() {
		for n := at.Number + 1; len(out) < limit; n++ {
			data, ok := m.entries[key(space, n)]
			if !ok {
				return
			}
			if len(data) == 0 {
				lost = true
				return
			}
			out = append(out, manifest.Entry{Number: n, Data: data})
		}
	})
	if err == nil && lost {
		return nil, manifest.ErrLost
	}
	return out, err
}

func (m *memory) Entries(ctx context.Context, space files.Space, first, last int64) (out [][]byte, err error) {
	err = m.do(ctx, "entries", func() {
		for n := first; n <= last; n++ {
			out = append(out, m.entries[key(space, n)])
		}
	})
	return out, err
}

func (m *memory) Checkpoints(ctx context.Context, space files.Space) (out []manifest.Mark, err error) {
	err = m.do(ctx, "checkpoints", func() {
		for k, c := range m.marks {
			if k == key(space, c.number) {
				out = append(out, manifest.Mark{Number: c.number, Time: c.at})
			}
		}
	})
	slices.SortFunc(out, func(a, b manifest.Mark) int { return int(a.Number - b.Number) })
	return out, err
}

func (m *memory) Checkpoint(ctx context.Context, space files.Space, number int64) (out []byte, err error) {
	err = m.do(ctx, "checkpoint", func() { out = m.marks[key(space, number)].data })
	return out, err
}

func (m *memory) PutCheckpoint(ctx context.Context, space files.Space, number int64, data []byte) error {
	return m.do(ctx, "put checkpoint", func() { m.marks[key(space, number)] = mark{number, stamped{slices.Clone(data), m.now()}} })
}

func (m *memory) dropMarks(space files.Space, keep int64) {
	maps.DeleteFunc(m.marks, func(k string, c mark) bool { return c.number < keep && k == key(space, c.number) })
}

func (m *memory) Prune(ctx context.Context, space files.Space, first, last, keep int64) error {
	return m.do(ctx, "prune", func() {
		for n := first; n <= last; n++ {
			delete(m.entries, key(space, n))
		}
		m.dropMarks(space, keep)
	})
}

func (m *memory) Erase(ctx context.Context, space files.Space, last, keep int64) error {
	return m.do(ctx, "erase", func() {
		for n := int64(1); n <= last; n++ {
			if _, ok := m.entries[key(space, n)]; ok {
				m.entries[key(space, n)] = []byte{}
			}
		}
		m.dropMarks(space, keep)
	})
}

func (m *memory) Put(ctx context.Context, space files.Space, chunks []manifest.Chunk) error {
	return m.do(ctx, "put", func() {
		for _, c := range chunks {
			m.chunks[key(space, c.Name)] = stamped{slices.Clone(c.Data), m.now()}
		}
	})
}

func (m *memory) Get(ctx context.Context, space files.Space, names []string) ([][]byte, error) {
	out := make([][]byte, len(names))
	err := m.do(ctx, "get", func() {
		for i, name := range names {
			out[i] = m.chunks[key(space, name)].data
		}
	})
	return out, err
}

func (m *memory) Delete(ctx context.Context, space files.Space, names []string) error {
	return m.do(ctx, "delete", func() {
		for _, name := range names {
			delete(m.chunks, key(space, name))
		}
	})
}

func (m *memory) Sweep(ctx context.Context, space files.Space, before time.Time, doomed func(string) bool) error {
	return m.do(ctx, "sweep", func() {
		maps.DeleteFunc(m.chunks, func(k string, c stamped) bool {
			name := k[strings.LastIndexByte(k, ' ')+1:]
			return k == key(space, name) && (before.IsZero() || c.at.Before(before)) && doomed(name)
		})
		maps.DeleteFunc(m.staged, func(_ string, c stamped) bool { return c.at.Before(m.now().Add(-24 * time.Hour)) })
	})
}

func (m *memory) Stage(ctx context.Context, c manifest.Chunk) error {
	return m.do(ctx, "stage", func() { m.staged[c.Name] = stamped{slices.Clone(c.Data), m.now()} })
}

func (m *memory) Adopt(ctx context.Context, space files.Space, from, to []string) error {
	return m.do(ctx, "adopt", func() {
		for i, name := range from {
			m.chunks[key(space, to[i])] = stamped{m.staged[name].data, m.now()}
		}
	})
}

func (m *memory) Unstage(ctx context.Context, names []string) error {
	return m.do(ctx, "unstage", func() {
		for _, name := range names {
			delete(m.staged, name)
		}
	})
}

func (m *memory) Spaces(ctx context.Context, prefix, after files.Space, limit int) (out []files.Space, more bool, err error) {
	err = m.do(ctx, "spaces", func() {
		for _, name := range slices.Sorted(maps.Keys(m.names)) {
			if !strings.HasPrefix(string(name), string(prefix)) || name <= after {
				continue
			}
			if len(out) == limit {
				more = true
				return
			}
			out = append(out, name)
		}
	})
	return out, more, err
}

// count is how often a call was made.
func (m *memory) count(call string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[call]
}
