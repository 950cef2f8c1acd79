package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// rowsAtOnce are how many rows one statement inserts, so that an update of many files needs few of them. There are few sizes, since databases prepare statements by their text.
var rowsAtOnce = []int{40, 8, 1}

// pending is what an update writes later: rows that are read only through it, and directories that may have become empty.
type pending struct {
	log     [][]any
	past    [][]any
	kept    map[string]int64 // rows of past by key
	live    map[int64]bool   // contents of past that go on
	made    map[string]bool  // directories that the update has made, or found
	emptied map[string]bool  // directories that may be empty; true: a file directly in them has gone
}

func newPending() pending {
	return pending{kept: map[string]int64{}, live: map[int64]bool{}, made: map[string]bool{}, emptied: map[string]bool{}}
}

const (
	logColumns  = `changes (space_id, seq, kind, path, from_path, revision, time, author)`
	pastColumns = `revisions (space_id, key, seq, path, size, mtime, revision, sha256, mode, author, content_id, replaced, removed, live)`
)

// insert writes rows into a table.
func (t *tx) insert(ctx context.Context, into string, rows [][]any) error {
	for len(rows) > 0 {
		n := 1
		for _, size := range rowsAtOnce {
			if size <= len(rows) {
				n = size
				break
			}
		}
		if err := t.q.Do(ctx, inserts[into][n], slices.Concat(rows[:n]...)...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// inserts are the statements that insert rows, by table and number of rows: made once, since each small update needs two of them.
var inserts = func() map[string]map[int]string {
	out := map[string]map[int]string{}
	for _, into := range []string{logColumns, pastColumns} {
		out[into] = map[int]string{}
		columns := strings.Count(into, ",") + 1
		for _, n := range rowsAtOnce {
			values := make([]string, n)
			for row := range values {
				parameters := make([]string, columns)
				for c := range parameters {
					parameters[c] = fmt.Sprintf("?%d", row*columns+c+1)
				}
				values[row] = "(" + strings.Join(parameters, ", ") + ")"
			}
			out[into][n] = "INSERT INTO " + into + " VALUES " + strings.Join(values, ", ")
		}
	}
	return out
}()

// flushPast writes the previous revisions that wait, before something changes or reads their table.
func (t *tx) flushPast(ctx context.Context) error {
	rows := t.pending.past
	if len(rows) == 0 {
		return nil
	}
	t.pending.past, t.seen = nil, nil
	clear(t.pending.kept)
	clear(t.pending.live)
	return t.insert(ctx, pastColumns, rows)
}

func (t *tx) flushLog(ctx context.Context) error {
	rows := t.pending.log
	t.pending.log = nil
	return t.insert(ctx, logColumns, rows)
}

// flush writes all that waits.
func (t *tx) flush(ctx context.Context) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := t.flushPast(ctx); err != nil {
		return err
	}
	return t.flushLog(ctx)
}

// leaves notes that a file has gone from its directory.
func (t *tx) leaves(p fsops.Path) {
	for i, dirs := 0, p.Ancestors(); i < len(dirs); i++ {
		key := dirs[i].Key()
		t.pending.emptied[key] = t.pending.emptied[key] || i == len(dirs)-1
	}
}

// settle removes the rows of directories that have nothing left, the deepest first.
func (t *tx) settle(ctx context.Context) error {
	if len(t.pending.emptied) == 0 {
		return nil
	}
	t.seen = nil
	dirs := make([]fsops.Path, 0, len(t.pending.emptied))
	for key := range t.pending.emptied {
		dirs = append(dirs, fsops.PathOf(key))
	}
	slices.SortFunc(dirs, func(a, b fsops.Path) int { return cmp.Compare(len(b.Key()), len(a.Key())) })
	for _, dir := range dirs {
		if !t.pending.emptied[dir.Key()] {
			continue
		}
		n, err := t.q.Exec(ctx, `DELETE FROM nodes WHERE space_id = ?1 AND key = ?2
			AND NOT EXISTS (SELECT 1 FROM nodes c WHERE c.space_id = ?1 AND c.parent_hash = ?3 AND c.parent = ?2)`, t.id, dir.Key(), hashOf(dir.Key()))
		if err != nil {
			return err
		}
		if n > 0 {
			delete(t.pending.made, dir.Key())
			if above := dir.Parent(); !above.IsRoot() {
				t.pending.emptied[above.Key()] = true
			}
		}
	}
	clear(t.pending.emptied)
	return nil
}

// settleAt is settle where a path may be that of a directory which has become empty.
func (t *tx) settleAt(ctx context.Context, p fsops.Path) error {
	if _, may := t.pending.emptied[p.Key()]; !may {
		return nil
	}
	return t.settle(ctx)
}

// Get implements [files.Tree].
func (t *tx) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	if len(paths) > maxSeen {
		return t.tree.Get(ctx, paths...)
	}
	return t.getSeen(ctx, paths)
}

// Children implements [files.Tree].
func (t *tx) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	if err := t.settle(ctx); err != nil {
		return files.Page{}, err
	}
	return t.tree.Children(ctx, dir, after, limit)
}

// Below implements [files.Tree].
func (t *tx) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	if err := t.settle(ctx); err != nil {
		return files.Page{}, err
	}
	return t.tree.Below(ctx, dir, after, limit)
}

// Revisions implements [files.Own].
func (t *tx) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	if err := t.flushPast(ctx); err != nil {
		return nil, false, err
	}
	return t.tree.Revisions(ctx, p, after, limit)
}

// Revision implements [files.Own].
func (t *tx) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	if err := t.flushPast(ctx); err != nil {
		return files.Node{}, err
	}
	return t.tree.Revision(ctx, p, revision)
}
