package sqlstore

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// tree reads one space, through the store or through a transaction.
type tree struct {
	store *Store
	space files.Space
	q     Querier
}

const (
	nodeColumns = `n.path, n.kind, n.size, n.mtime, n.revision, n.sha256, n.mode, n.author, n.content_id`
	ofSpace     = `n.space_id = (SELECT id FROM spaces WHERE name = ?1)`
)

// Get implements [files.Tree].
func (t *tree) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	out := make([]files.Node, len(paths))
	keys := make([]string, 0, len(paths))
	index := make(map[string][]int, len(paths))
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
		return out, ctx.Err()
	}
	take := func(row Row) error {
		n, err := scanNode(row)
		for _, i := range index[n.Path.Key()] {
			out[i] = n
		}
		return err
	}
	statement, args := getNodes.with(t.store.db.Dialect(), keys, string(t.space))
	return out, t.q.Query(ctx, statement, take, args...)
}

func scanNode(row Row, more ...any) (files.Node, error) {
	var n files.Node
	var path string
	var mtime, mode, content int64
	into := []any{&path, &n.Kind, &n.Size, &mtime, &n.Revision, &n.SHA256, &mode, &n.Author, &content}
	err := row.Scan(append(into, more...)...)
	n.Path, n.ModTime, n.Mode = fsops.PathOf(path), time.UnixMicro(mtime).UTC(), uint32(mode)
	if n.Kind == files.KindFile {
		n.Ref = strconv.FormatInt(content, 10)
	}
	return n, err
}

// Children implements [files.Tree].
func (t *tree) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return t.page(ctx, limit, `n.parent_hash = ?2 AND n.parent = ?3 AND n.key > ?4 ORDER BY n.key LIMIT ?5`,
		hashOf(dir.Key()), dir.Key(), after, limit+1)
}

// Below implements [files.Tree].
func (t *tree) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	if dir.IsRoot() {
		return t.page(ctx, limit, `n.key > ?2 ORDER BY n.key LIMIT ?3`, after, limit+1)
	}
	return t.page(ctx, limit, `n.key > ?2 AND n.key < ?3 ORDER BY n.key LIMIT ?4`, max(after, dir.Key()+"/"), dir.Key()+"0", limit+1)
}

func (t *tree) page(ctx context.Context, limit int, where string, args ...any) (files.Page, error) {
	var page files.Page
	err := t.q.Query(ctx, `SELECT `+nodeColumns+` FROM nodes n WHERE `+ofSpace+` AND `+where, func(row Row) error {
		n, err := scanNode(row)
		page.Nodes = append(page.Nodes, n)
		return err
	}, append([]any{string(t.space)}, args...)...)
	if len(page.Nodes) > limit {
		page.Nodes, page.More = page.Nodes[:limit], true
	}
	return page, err
}

// Whiteouts implements [files.Own].
func (t *tree) Whiteouts(ctx context.Context) ([]string, error) {
	var keys []string
	err := t.q.Query(ctx, `SELECT n.key FROM whiteouts n WHERE `+ofSpace+` ORDER BY n.key`, func(row Row) error {
		var key string
		err := row.Scan(&key)
		keys = append(keys, key)
		return err
	}, string(t.space))
	return keys, err
}

// hashOf shortens a key for an index whose entries are bounded.
func hashOf(key string) int64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return int64(h.Sum64())
}
