package sqlstore

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// IndexTx is a transaction of a store that keeps only what is known about files, while their content is elsewhere. The backend local uses it.
type IndexTx interface {
	files.Tx
	// Record writes what is known about a file, with its revision as given, and a detail of the caller's own. It replaces what was known.
	Record(ctx context.Context, n files.Node, detail []byte) error
	// Unrecord forgets what is known about a file, if anything is.
	Unrecord(ctx context.Context, p fsops.Path) error
	// Exec runs a statement on tables of the caller's own in the same transaction.
	Exec(ctx context.Context, statement string, args ...any) error
}

// Known is what an index knows about a file.
type Known struct {
	Node   files.Node
	Detail []byte
}

// Record implements [IndexTx].
func (t *tx) Record(ctx context.Context, n files.Node, detail []byte) error {
	old, err := t.past(ctx, n.Path)
	if err != nil {
		return err
	}
	if err := t.replace(ctx, old, n); err != nil {
		return err
	}
	id, err := newContent(ctx, t.q, t.id, 0, detail)
	if err != nil {
		return err
	}
	t.rev++
	return t.write(ctx, n, id)
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
	_, err := t.q.Exec(ctx, statement, args...)
	return err
}

// Known returns what the index knows about files, by key.
func (s *Store) Known(ctx context.Context, space files.Space, keys []string) (map[string]Known, error) {
	out := make(map[string]Known, len(keys))
	list, err := json.Marshal(keys)
	if err != nil || len(keys) == 0 {
		return out, err
	}
	err = checked{s}.Query(ctx, `SELECT n.key, n.path, n.size, n.mtime, n.revision, n.sha256, n.mode, n.author, n.content_id, c.hash_state
		FROM nodes n JOIN contents c ON c.id = n.content_id
		WHERE `+ofSpace+` AND n.key IN (`+s.db.Dialect().TextsOf("?2")+`)`, func(row Row) error {
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
	}, string(space), string(list))
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
