package bleveindex

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
)

// lockWait is how long to wait for another process to let go of an index. Without it Bleve waits for ever.
const lockWait = "300ms"

// Backend opens indexes under a directory, or in memory.
type Backend struct{ root string }

var _ index.Backend = (*Backend)(nil)

// OnDisk keeps each index in a directory below root.
func OnDisk(root string) *Backend { return &Backend{root: filepath.Join(root, mappingVersion)} }

// InMemory keeps indexes in memory: each Open gives a new, empty one.
func InMemory() *Backend { return &Backend{} }

func config() map[string]any {
	return map[string]any{"bolt_timeout": lockWait}
}

// Open opens or makes the index.
func (b *Backend) Open(_ context.Context, key string) (ix index.Index, err error) {
	defer guard(&err)()
	m, err := newMapping()
	if err != nil {
		return nil, fmt.Errorf("bleveindex: mapping: %w", err)
	}
	if b.root == "" {
		inner, err := bleve.NewUsing("", m, scorch.Name, scorch.Name, config())
		if err != nil {
			return nil, fmt.Errorf("bleveindex: %w", err)
		}
		return newIndex(inner)
	}
	dir := b.dir(key)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return nil, fmt.Errorf("bleveindex: %w", err)
		}
		inner, err := bleve.NewUsing(dir, m, scorch.Name, scorch.Name, config())
		if err != nil {
			return nil, fmt.Errorf("bleveindex: make %s: %w", key, err)
		}
		return newIndex(inner)
	}
	inner, err := bleve.OpenUsing(dir, config())
	switch {
	case err == nil:
	case isLocked(err):
		return nil, index.ErrLocked
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("bleveindex: open %s: %w", key, err)
	default:
		return nil, fmt.Errorf("%w: open %s: %w", index.ErrDamaged, key, err)
	}
	// Only who holds the lock may judge the segments: another process could be writing one.
	if err := verify(dir); err != nil {
		inner.Close()
		return nil, fmt.Errorf("%w: %s: %w", index.ErrDamaged, key, err)
	}
	return newIndex(inner)
}

// Destroy removes the directory.
func (b *Backend) Destroy(_ context.Context, key string) error {
	if b.root == "" {
		return nil
	}
	if err := os.RemoveAll(b.dir(key)); err != nil {
		return fmt.Errorf("bleveindex: remove %s: %w", key, err)
	}
	return nil
}

// Exists sums the sizes of the files.
func (b *Backend) Exists(_ context.Context, key string) (bytes int64, ok bool) {
	if b.root == "" {
		return 0, false
	}
	err := filepath.WalkDir(b.dir(key), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, err == nil
}

// dir is the directory of a key. The last segment is marked, so that no index lies inside another one's directory.
func (b *Backend) dir(key string) string {
	return filepath.Join(b.root, filepath.FromSlash(key)) + ".bleve"
}

func isLocked(err error) bool {
	return errors.Is(err, bolterrors.ErrTimeout) || strings.HasSuffix(err.Error(), "timeout")
}
