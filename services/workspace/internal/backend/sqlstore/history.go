package sqlstore

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const revisionColumns = `n.path, 1, n.size, n.mtime, n.revision, n.sha256, n.mode, n.author, n.content_id, n.replaced, n.removed`

// Revisions implements [files.Own].
func (t *tree) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	args := []any{string(t.space), p.Key(), limit + 1}
	from := ""
	if after != "" {
		seq, err := t.seqOf(ctx, p, after)
		if err != nil {
			return nil, false, err
		}
		from = ` AND n.seq < ?4`
		args = append(args, seq)
	}
	var out []files.Node
	err := t.q.Query(ctx, `SELECT `+revisionColumns+` FROM revisions n WHERE `+ofSpace+` AND n.key = ?2`+from+` ORDER BY n.seq DESC LIMIT ?3`, func(row Row) error {
		n, err := scanRevision(row)
		out = append(out, n)
		return err
	}, args...)
	if len(out) > limit {
		return out[:limit], true, err
	}
	return out, false, err
}

// seqOf is the place of a kept revision in the history of its space.
func (t *tree) seqOf(ctx context.Context, p fsops.Path, revision string) (int64, error) {
	seq := int64(-1)
	err := t.q.Query(ctx, `SELECT n.seq FROM revisions n WHERE `+ofSpace+` AND n.key = ?2 AND n.revision = ?3`,
		func(row Row) error { return row.Scan(&seq) }, string(t.space), p.Key(), revision)
	if err == nil && seq < 0 {
		err = fsops.ErrTokenInvalid("page_token")
	}
	return seq, err
}

// Revision implements [files.Own].
func (t *tree) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	nodes, err := t.Get(ctx, p)
	if err != nil || revision == "" || nodes[0].Revision == revision {
		return nodes[0], err
	}
	var out files.Node
	err = t.q.Query(ctx, `SELECT `+revisionColumns+` FROM revisions n WHERE `+ofSpace+` AND n.key = ?2 AND n.revision = ?3`, func(row Row) (err error) {
		out, err = scanRevision(row)
		return err
	}, string(t.space), p.Key(), revision)
	return out, err
}

func scanRevision(row Row) (files.Node, error) {
	var replaced, removed int64
	n, err := scanNode(row, &replaced, &removed)
	n.Replaced, n.Removed = time.UnixMicro(replaced).UTC(), removed != 0
	return n, err
}
