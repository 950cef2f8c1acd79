package sqlstore

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// past is a file that a change is about to replace, with what is kept of it.
type past struct {
	files.Node
	kept   int64 // previous revisions of its path
	shared bool  // some kept revision has the same content: an append or a move goes on with it
}

const pastColumnsOf = nodeColumns + `, (SELECT count(*) FROM revisions r WHERE r.space_id = n.space_id AND r.key = n.key),
		(SELECT count(*) FROM (SELECT 1 FROM revisions r WHERE r.content_id = n.content_id LIMIT 1) x)`

// past returns what a path holds; the zero past when it is nothing.
func (t *tx) past(ctx context.Context, p fsops.Path) (past, error) {
	var out past
	if err := t.ready(ctx); err != nil {
		return out, err
	}
	if err := t.settleAt(ctx, p); err != nil {
		return out, err
	}
	known, looked := t.seen[p.Key()]
	if looked || !holds(p.Key()) {
		out = known
	} else if err := t.q.Query(ctx, `SELECT `+pastColumnsOf+` FROM nodes n WHERE n.space_id = ?1 AND n.key = ?2`, func(row Row) (err error) {
		out, err = scanPast(row)
		return err
	}, t.id, p.Key()); err != nil {
		return out, err
	}
	out.shared = out.shared || t.pending.live[contentID(out.Node)]
	out.kept += t.pending.kept[p.Key()]
	return out, nil
}

func scanPast(row Row) (out past, err error) {
	var shared int64
	out.Node, err = scanNode(row, &out.kept, &shared)
	out.shared = shared > 0
	return out, err
}

// keeps says whether a revision is to be kept: not one that only this update has seen.
func (t *tx) keeps(n files.Node) bool {
	return t.store.history.Keeps(n) && !t.made[n.Revision]
}

// retire is for a file whose content no node holds any more: it becomes a previous revision, or its content is left to the sweep.
func (t *tx) retire(ctx context.Context, old past, removed bool) error {
	id, there := contentID(old.Node), true
	if t.store.kept != nil {
		there = t.store.kept(id)
	}
	if old.shared {
		if t.pending.live[id] {
			if err := t.flushPast(ctx); err != nil {
				return err
			}
		}
		statement := `UPDATE revisions SET live = 0 WHERE content_id = ?1`
		if !there {
			statement = `DELETE FROM revisions WHERE content_id = ?1`
		}
		if err := t.q.Do(ctx, statement, id); err != nil {
			return err
		}
	}
	switch {
	case there && t.keeps(old.Node):
		t.remember(old, removed, false)
	case there && old.shared: // older revisions have the content
	case t.store.kept != nil:
		if err := dropContent(ctx, t.q, id); err != nil {
			return err
		}
	default:
		if err := t.loosen(ctx, id); err != nil {
			return err
		}
	}
	if t.made[old.Revision] && removed {
		if err := t.setRemoved(ctx, old.Path, true); err != nil {
			return err
		}
	}
	if removed {
		t.gone[old.Path.Key()] = true
	}
	return t.prune(ctx, old.Path, old.kept)
}

// remember makes a file a previous revision. live: a node goes on with its content.
func (t *tx) remember(old past, removed, live bool) {
	t.rev++ // its place in the history of the space
	n := old.Node
	t.pending.past = append(t.pending.past, []any{
		t.id, n.Path.Key(), t.rev, n.Path.String(), n.Size, n.ModTime.UnixMicro(), n.Revision, n.SHA256, int64(n.Mode), n.Author, contentID(n),
		t.now.UnixMicro(), number(removed), number(live),
	})
	t.pending.kept[n.Path.Key()]++
	if live {
		t.pending.live[contentID(n)] = true
	}
}

// goesOn is for a file whose content goes on in a new revision, at the same path or another one.
func (t *tx) goesOn(ctx context.Context, old past, removed bool) error {
	if removed {
		t.gone[old.Path.Key()] = true
	}
	if !t.keeps(old.Node) {
		if t.made[old.Revision] && removed {
			return t.setRemoved(ctx, old.Path, true)
		}
		return nil
	}
	t.remember(old, removed, true)
	return t.prune(ctx, old.Path, old.kept)
}

// setRemoved corrects what this update has noted about a path: whether something took the place of its last revision.
func (t *tx) setRemoved(ctx context.Context, p fsops.Path, removed bool) error {
	if err := t.flushPast(ctx); err != nil {
		return err
	}
	return t.q.Do(ctx, `UPDATE revisions SET removed = ?4 WHERE space_id = ?1 AND key = ?2 AND seq > ?3`, t.id, p.Key(), t.began, number(removed))
}

// comesBack is for a path that gets a file where nothing was.
func (t *tx) comesBack(ctx context.Context, p fsops.Path) error {
	if !t.gone[p.Key()] {
		return nil
	}
	delete(t.gone, p.Key())
	return t.setRemoved(ctx, p, false)
}

// prune drops the revisions of a path that are beyond the policy's count. It waits until there are half as many more, so that most writes of a path need no statement for it.
func (t *tx) prune(ctx context.Context, p fsops.Path, kept int64) error {
	count := int64(t.store.history.Count)
	if kept == 0 || kept < count+count/2 {
		return nil
	}
	return t.drop(ctx, func(row string) string {
		return row + `.space_id = ?1 AND ` + row + `.key = ?2
			AND ` + row + `.seq <= (SELECT c.seq FROM revisions c WHERE c.space_id = ?1 AND c.key = ?2 ORDER BY c.seq DESC LIMIT 1 OFFSET ?3)`
	}, t.id, p.Key(), count)
}

// drop removes the revisions for which doomed, a condition on a row with three parameters, holds. Their contents are left to the sweep unless something else has them.
func (t *tx) drop(ctx context.Context, doomed func(row string) string, args ...any) error {
	if err := t.flushPast(ctx); err != nil {
		return err
	}
	if err := t.q.Do(ctx, `UPDATE contents SET loose_since = ?4 WHERE id IN (SELECT d.content_id FROM revisions d WHERE `+doomed("d")+` AND d.live = 0)
		AND NOT EXISTS (SELECT 1 FROM revisions r WHERE r.content_id = contents.id AND NOT (`+doomed("r")+`))`, append(args, t.now.UnixMicro())...); err != nil {
		return err
	}
	return t.q.Do(ctx, `DELETE FROM revisions AS d WHERE `+doomed("d"), args...)
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
