package sqlstore

import (
	"context"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// IndexTx is a transaction of a store that keeps only what is known about files, while their content is elsewhere. The backend local uses it.
type IndexTx interface {
	files.Tx
	// Record writes what is known about a file of new content, with its revision as given, and a detail of the caller's own. What the path held becomes a previous revision if
	// its content is kept, see [Store.KeepElsewhere].
	Record(ctx context.Context, n files.Node, detail []byte) error
	// Notice is Record for a file that somebody else wrote: it becomes a previous revision even if this update replaces it. content is what Reserve gave, or 0.
	Notice(ctx context.Context, n files.Node, detail []byte, content int64) error
	// Extend is Record for a file that goes on with the content that the path holds, and Move for one that goes on with that of another path.
	Extend(ctx context.Context, n files.Node, detail []byte) error
	Move(ctx context.Context, from fsops.Path, n files.Node, detail []byte) error
	// Unrecord forgets what is known about a file, if anything is.
	Unrecord(ctx context.Context, p fsops.Path) error
	// Exec runs a statement on tables of the caller's own in the same transaction.
	Exec(ctx context.Context, statement string, args ...any) error
}

// KeepElsewhere says where the contents of an index are: kept says whether the content of a node that is replaced is kept as that of a previous revision, dropped is told after
// a commit which contents nothing refers to any more. It is called before the store is used.
func (s *Store) KeepElsewhere(kept func(content int64) bool, dropped func(contents []int64)) {
	s.kept, s.dropped = kept, dropped
}

// Reserve gives out the id of a content that a Notice will use. Unused ones are dropped some time later.
func (s *Store) Reserve(ctx context.Context) (id int64, err error) {
	err = s.Raw(ctx, func(ctx context.Context, q Querier) error {
		id, err = newContent(ctx, q, 0, s.now().UnixMicro(), nil)
		return err
	})
	return id, err
}

// Known is what an index knows about a file.
type Known struct {
	Node   files.Node
	Detail []byte
}

// Record implements [IndexTx].
func (t *tx) Record(ctx context.Context, n files.Node, detail []byte) error {
	return t.record(ctx, n, detail, 0)
}

// Notice implements [IndexTx].
func (t *tx) Notice(ctx context.Context, n files.Node, detail []byte, content int64) error {
	err := t.record(ctx, n, detail, content)
	delete(t.made, n.Revision)
	return err
}

func (t *tx) record(ctx context.Context, n files.Node, detail []byte, content int64) error {
	old, err := t.past(ctx, n.Path)
	if err != nil {
		return err
	}
	if err := t.replace(ctx, old, n); err != nil {
		return err
	}
	t.seen = nil
	t.rev++
	if content == 0 {
		if content, err = newContent(ctx, t.q, t.id, 0, detail); err != nil {
			return err
		}
	} else if err := t.q.Do(ctx, `UPDATE contents SET space_id = ?2, loose_since = 0, hash_state = ?3 WHERE id = ?1`, content, t.id, detail); err != nil {
		return err
	}
	return t.write(ctx, n, content)
}

// Extend implements [IndexTx].
func (t *tx) Extend(ctx context.Context, n files.Node, detail []byte) error {
	return t.Move(ctx, n.Path, n, detail)
}

// Move implements [IndexTx].
func (t *tx) Move(ctx context.Context, from fsops.Path, n files.Node, detail []byte) error {
	old, err := t.past(ctx, from)
	if err != nil {
		return err
	}
	if old.Kind != files.KindFile {
		return t.Record(ctx, n, detail)
	}
	t.seen = nil
	t.rev++
	t.usage.Bytes += n.Size - old.Size
	if err := t.move(ctx, old, n); err != nil {
		return err
	}
	return t.q.Do(ctx, `UPDATE contents SET hash_state = ?2 WHERE id = ?1`, contentID(old.Node), detail)
}

// Unrecord implements [IndexTx].
func (t *tx) Unrecord(ctx context.Context, p fsops.Path) error {
	old, err := t.past(ctx, p)
	if err != nil || old.Kind != files.KindFile {
		return err
	}
	return t.Remove(ctx, p)
}

// Exec implements [IndexTx].
func (t *tx) Exec(ctx context.Context, statement string, args ...any) error {
	return t.q.Do(ctx, statement, args...)
}

// Known returns what the index knows about files, by key.
func (s *Store) Known(ctx context.Context, space files.Space, keys []string) (map[string]Known, error) {
	out := make(map[string]Known, len(keys))
	if len(keys) == 0 {
		return out, nil
	}
	err := checked{s}.Query(ctx, `SELECT n.key, n.path, n.size, n.mtime, n.revision, n.sha256, n.mode, n.author, n.content_id, c.hash_state
		FROM nodes n JOIN contents c ON c.id = n.content_id
		WHERE `+ofSpace+` AND n.key `+s.db.Dialect().InTexts("?2"), func(row Row) error {
		var key, path string
		var k Known
		var mtime, mode, id int64
		if err := row.Scan(&key, &path, &k.Node.Size, &mtime, &k.Node.Revision, &k.Node.SHA256, &mode, &k.Node.Author, &id, &k.Detail); err != nil {
			return err
		}
		k.Node.Kind, k.Node.Path, k.Node.Mode = files.KindFile, fsops.PathOf(path), uint32(mode)
		k.Node.ModTime, k.Node.Ref = time.UnixMicro(mtime).UTC(), strconv.FormatInt(id, 10)
		k.Detail = append([]byte(nil), k.Detail...)
		out[key] = k
		return nil
	}, string(space), s.db.Dialect().Texts(keys))
	return out, err
}

// Past is what an index knows about a file that is to be changed.
type Past struct {
	Known
	// Content is the id of its content; 0 when nothing is known.
	Content int64
	// Shared says that kept previous revisions have the same content.
	Shared bool
}

// Past returns what the index knows about one file; the zero Past when it knows none.
func (s *Store) Past(ctx context.Context, space files.Space, p fsops.Path) (Past, error) {
	known, err := s.Known(ctx, space, []string{p.Key()})
	if err != nil {
		return Past{}, err
	}
	k, ok := known[p.Key()]
	if !ok {
		return Past{}, nil
	}
	out := Past{Known: k, Content: contentID(k.Node)}
	err = checked{s}.Query(ctx, `SELECT 1 FROM revisions WHERE content_id = ?1 LIMIT 1`, func(row Row) error {
		var one int64
		out.Shared = true
		return row.Scan(&one)
	}, out.Content)
	return out, err
}

// Detail returns the detail of a content; nil when there is none.
func (s *Store) Detail(ctx context.Context, content int64) ([]byte, error) {
	var out []byte
	err := checked{s}.Query(ctx, `SELECT hash_state FROM contents WHERE id = ?1`, func(row Row) error {
		var detail []byte
		err := row.Scan(&detail)
		out = append([]byte(nil), detail...)
		return err
	}, content)
	return out, err
}

// Contents returns those of the contents that the index has.
func (s *Store) Contents(ctx context.Context, ids []int64) (map[int64]bool, error) {
	out := make(map[int64]bool, len(ids))
	err := checked{s}.Query(ctx, `SELECT id FROM contents WHERE id `+s.db.Dialect().InNumbers("?1"), func(row Row) error {
		var id int64
		err := row.Scan(&id)
		out[id] = true
		return err
	}, s.db.Dialect().Numbers(ids))
	return out, err
}

// Recorded returns the recorded outcome of an effect, if there is one. EFFECT_MISMATCH when it is that of another request.
func (s *Store) Recorded(ctx context.Context, space files.Space, effect files.Effect) (files.Updated, bool, error) {
	t := &tx{tree: tree{store: s, space: space, q: checked{s}}}
	if effect.ID == "" {
		return files.Updated{}, false, nil
	}
	err := t.q.Query(ctx, `SELECT id, generation FROM spaces WHERE name = ?1`, func(row Row) error { return row.Scan(&t.id, &t.generation) }, string(space))
	if err != nil || t.id == 0 {
		return files.Updated{}, false, err
	}
	var out files.Updated
	found, err := t.recorded(ctx, effect, &out)
	return out, found, err
}

// Raw runs f in a transaction of its own, on tables of the caller's own.
func (s *Store) Raw(ctx context.Context, f func(context.Context, Querier) error) error {
	if err := s.open(); err != nil {
		return err
	}
	return s.fault(ctx, s.db.Update(ctx, "", f))
}
