package sqlstore

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// prefetchBytes is the size up to which a file's content comes along when it is looked up to be opened.
const prefetchBytes = 64 << 10

var _ files.Prefetcher = (*tree)(nil)

// GetOpen implements [files.Prefetcher]: one statement for what Get and Open take two for.
func (t *tree) GetOpen(ctx context.Context, paths ...fsops.Path) ([]files.Node, files.Content, error) {
	out := make([]files.Node, len(paths))
	index := make(map[string][]int, len(paths))
	keys := make([]string, 0, len(paths))
	for i, p := range paths {
		if p.IsRoot() {
			out[i] = files.Node{Kind: files.KindDir, Mode: 0o755}
			continue
		}
		if key := p.Key(); holds(key) {
			keys = append(keys, key)
			index[key] = append(index[key], i)
		}
	}
	if len(keys) == 0 {
		return out, nil, ctx.Err()
	}
	last := paths[len(paths)-1].Key()
	var opened files.Content
	statement, args := getOpen.with(t.store.db.Dialect(), keys, string(t.space), last, int64(prefetchBytes))
	err := t.q.Query(ctx, statement, func(row Row) error {
		var data []byte
		n, err := scanNode(row, &data)
		if err != nil {
			return err
		}
		for _, i := range index[n.Path.Key()] {
			out[i] = n
		}
		// An append may have made a second chunk.
		if n.Kind == files.KindFile && n.Path.Key() == last && int64(len(data)) >= n.Size && n.Size > 0 {
			opened = &content{ctx: context.WithoutCancel(ctx), q: t.q, id: contentID(n), size: n.Size, chunk: data}
		}
		return nil
	}, args...)
	return out, opened, err
}
