package sqlstore

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// maxSeen bounds the paths that an update remembers: those of one look-up of a path and the directories above it.
const maxSeen = 64

// getSeen is Get that remembers what it has found, so that the change which follows need not look again. Whatever writes forgets it.
func (t *tx) getSeen(ctx context.Context, paths []fsops.Path) ([]files.Node, error) {
	out := make([]files.Node, len(paths))
	keys := make([]string, 0, len(paths))
	seen := make(map[string]past, len(paths))
	for _, p := range paths {
		if key := p.Key(); !p.IsRoot() {
			if _, twice := seen[key]; !twice && holds(key) {
				keys = append(keys, key)
			}
			seen[key] = past{}
		}
	}
	if len(keys) > 0 {
		statement, args := getPasts.with(t.store.db.Dialect(), keys, string(t.space))
		err := t.q.Query(ctx, statement, func(row Row) error {
			old, err := scanPast(row)
			seen[old.Path.Key()] = old
			return err
		}, args...)
		if err != nil {
			return nil, err
		}
	}
	for i, p := range paths {
		if p.IsRoot() {
			out[i] = files.Node{Kind: files.KindDir, Mode: 0o755}
			continue
		}
		out[i] = seen[p.Key()].Node
	}
	t.seen = seen
	return out, nil
}
