package sandbox

import (
	"context"
	"io/fs"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Blank returns the workspace that the bucket's next sandbox will have, when that is an empty one: there is no sandbox, nothing that it would be restored
// from, and no loss to tell about. Reading needs no sandbox then. nil: look into the sandbox.
func (m *Manager) Blank(ctx context.Context, bucket string) (Tree, error) {
	m.mu.Lock()
	s := m.slots[bucket]
	there := s != nil && (s.live != nil || s.busy)
	m.mu.Unlock()
	if there {
		return nil, nil
	}
	head, err := m.store.Head(ctx, bucket)
	if err != nil || head.Snapshot != "" || head.Unsaved != nil || head.untold() {
		return nil, err
	}
	return blank{limits: m.set.Defaults}, nil
}

// blank is an empty workspace for reading. The embedded interface is nil: it has no operation that changes anything.
type blank struct {
	Tree
	limits Limits
}

func (blank) Stat(_ context.Context, path string) (Entry, error) {
	if path == "" || path == "." {
		return Entry{Kind: fs.ModeDir, Mode: 0o755}, nil
	}
	return Entry{}, fsops.ErrNotFound(path)
}

func (b blank) Lstat(ctx context.Context, path string) (Entry, error) { return b.Stat(ctx, path) }

func (b blank) ReadDir(ctx context.Context, path, _ string, _ int) ([]Entry, error) {
	_, err := b.Stat(ctx, path)
	return nil, err
}

func (blank) Open(_ context.Context, path string) (File, error) { return nil, fsops.ErrNotFound(path) }

func (b blank) Usage(context.Context) (Usage, error) {
	return Usage{LimitBytes: b.limits.DiskBytes, LimitEntries: b.limits.DiskEntries, LimitFileBytes: b.limits.FileBytes}, nil
}

func (blank) Close() error { return nil }
