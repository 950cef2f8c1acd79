package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Append implements [files.Tx].
func (t *tx) Append(ctx context.Context, f files.File) (files.Node, error) {
	old, err := t.existing(ctx, f.Path)
	if err != nil {
		return files.Node{}, err
	}
	n := old.Node
	data, err := stagedBytes(ctx, t, f.Content)
	if err != nil {
		return files.Node{}, err
	}
	id := contentID(n)
	var state, signature []byte
	if err := t.q.Query(ctx, `SELECT hash_state, signature FROM contents WHERE id = ?1`, func(row Row) error { return row.Scan(&state, &signature) }, id); err != nil {
		return files.Node{}, err
	}
	h := sha256.New()
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		return files.Node{}, fmt.Errorf("the state of the hash of content %d: %w", id, err)
	}
	h.Write(data)
	if err := t.addBytes(ctx, id, n.Size, data); err != nil {
		return files.Node{}, err
	}
	if signature, err = t.appended(ctx, id, n.Size+int64(len(data)), signature, data); err != nil {
		return files.Node{}, err
	}
	if err := t.q.Do(ctx, `UPDATE contents SET hash_state = ?2, rev = ?3, signature = ?4 WHERE id = ?1`, id, hashState(h), t.rev+1, signature); err != nil {
		return files.Node{}, err
	}
	if err := t.goesOn(ctx, old, false); err != nil {
		return files.Node{}, err
	}
	t.usage.Bytes += int64(len(data))
	n.Size, n.SHA256 = n.Size+int64(len(data)), hex.EncodeToString(h.Sum(nil))
	n.Revision, n.Author, n.ModTime = t.newRevision(), f.Author, t.now.UTC().Truncate(time.Microsecond)
	return n, t.write(ctx, n, id)
}

// addBytes adds to the last chunk while that is small, else makes new ones. Either costs the same at any size of file.
func (t *tx) addBytes(ctx context.Context, id, size int64, data []byte) error {
	if len(data) < appendBytes {
		added, err := t.q.Exec(ctx, `UPDATE chunks SET data = `+t.store.db.Dialect().Joined("data", "?2")+` WHERE content_id = ?1
			AND start = (SELECT max(start) FROM chunks WHERE content_id = ?1) AND length(data) < ?3`, id, data, appendBytes)
		if err != nil || added > 0 {
			return err
		}
	}
	for len(data) > 0 {
		part := data[:min(len(data), chunkBytes)]
		if err := t.q.Do(ctx, `INSERT INTO chunks (content_id, start, data) VALUES (?1, ?2, ?3)`, id, size, part); err != nil {
			return err
		}
		size, data = size+int64(len(part)), data[len(part):]
	}
	return nil
}

// stagedBytes returns staged content that is to be appended. Appends are bounded by the size of a message, so they fit into memory.
func stagedBytes(ctx context.Context, t *tx, from files.Staged) ([]byte, error) {
	s, ok := from.(*staged)
	if !ok || s.store != t.store {
		return nil, errors.New("content was staged in another store")
	}
	if s.id == 0 {
		return s.data, nil
	}
	data := make([]byte, 0, s.size)
	err := t.q.Query(ctx, `SELECT data FROM chunks WHERE content_id = ?1 ORDER BY start`, func(row Row) error {
		var part []byte
		err := row.Scan(&part)
		data = append(data, part...)
		return err
	}, s.id)
	return data, err
}

// Remove implements [files.Tx].
func (t *tx) Remove(ctx context.Context, p fsops.Path) error {
	old, err := t.existing(ctx, p)
	if err != nil {
		return err
	}
	t.usage.Bytes -= old.Size
	t.usage.Files--
	if err := t.retire(ctx, old, true); err != nil {
		return err
	}
	return t.take(ctx, p)
}

// take removes the row of a file.
func (t *tx) take(ctx context.Context, p fsops.Path) error {
	t.seen = nil
	err := t.q.Do(ctx, `DELETE FROM nodes WHERE space_id = ?1 AND key = ?2`, t.id, p.Key())
	t.leaves(p)
	return err
}

// Rename implements [files.Tx].
func (t *tx) Rename(ctx context.Context, from, to fsops.Path, author string) (files.Node, error) {
	if err := t.fits(to); err != nil {
		return files.Node{}, err
	}
	old, err := t.existing(ctx, from)
	if err != nil {
		return files.Node{}, err
	}
	n := old.Node
	n.Path, n.Revision, n.Author = to, t.newRevision(), author
	return n, t.move(ctx, old, n)
}

// move makes a file one of another path, or spelling, that goes on with its content.
func (t *tx) move(ctx context.Context, old past, n files.Node) error {
	away := old.Path.Key() != n.Path.Key()
	if err := t.goesOn(ctx, old, away); err != nil {
		return err
	}
	if err := t.indexMoved(ctx, contentID(old.Node), n.Path); err != nil {
		return err
	}
	if !away {
		return t.write(ctx, n, contentID(old.Node))
	}
	target, err := t.past(ctx, n.Path)
	if err != nil {
		return err
	}
	t.usage.Bytes -= n.Size
	t.usage.Files--
	if target.Exists() {
		err = t.take(ctx, old.Path)
	}
	if err == nil {
		err = t.replace(ctx, target, n)
	}
	if err != nil {
		return err
	}
	if target.Exists() {
		return t.write(ctx, n, contentID(old.Node))
	}
	t.made[n.Revision] = true
	t.leaves(old.Path)
	parent := n.Path.Parent().Key()
	err = t.q.Do(ctx, `UPDATE nodes SET key = ?3, path = ?4, parent = ?5, parent_hash = ?6, size = ?7, mtime = ?8, revision = ?9, sha256 = ?10, mode = ?11, author = ?12
		WHERE space_id = ?1 AND key = ?2`, t.id, old.Path.Key(), n.Path.Key(), n.Path.String(), parent, hashOf(parent), n.Size, n.ModTime.UnixMicro(), n.Revision, n.SHA256,
		int64(n.Mode), n.Author)
	return err
}

// SetWhiteout implements [files.Tx].
func (t *tx) SetWhiteout(ctx context.Context, p fsops.Path) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	n, err := t.q.Exec(ctx, `INSERT INTO whiteouts (space_id, key) VALUES (?1, ?2) ON CONFLICT (space_id, key) DO NOTHING`, t.id, p.Key())
	t.usage.Whiteouts += n
	return err
}

// ClearWhiteout implements [files.Tx].
func (t *tx) ClearWhiteout(ctx context.Context, p fsops.Path) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	n, err := t.q.Exec(ctx, `DELETE FROM whiteouts WHERE space_id = ?1 AND key = ?2`, t.id, p.Key())
	t.usage.Whiteouts -= n
	return err
}

// Log implements [files.Tx].
func (t *tx) Log(ctx context.Context, c files.Change) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	t.seq++
	t.pending.log = append(t.pending.log, []any{t.id, t.seq, int64(c.Kind), c.Path.String(), c.From.String(), c.Revision, t.now.UnixMicro(), c.Author})
	return nil
}

// Usage implements [files.Tx].
func (t *tx) Usage(ctx context.Context) (files.Usage, error) {
	err := t.ready(ctx)
	return t.usage, err
}

// fits refuses a path that the database can't index.
func (t *tx) fits(p fsops.Path) error {
	if limit := t.store.db.Dialect().MaxKeyBytes; limit > 0 && len(p.Key()) > limit {
		return fsops.ErrNameUnsupported(p.String(), "this store holds paths of at most "+strconv.Itoa(limit)+" bytes")
	}
	if _, changed := fsops.Text(p.String()); changed {
		return fsops.ErrNameUnsupported(p.String(), "this store holds names in UTF-8 only")
	}
	return nil
}

// existing returns a file that must be there.
func (t *tx) existing(ctx context.Context, p fsops.Path) (past, error) {
	n, err := t.past(ctx, p)
	if err == nil && n.Kind != files.KindFile {
		err = errdefs.New(errdefs.ErrNotFound, fsops.Domain, fsops.ReasonPathNotFound, "the space has no such file").With("path", p.String())
	}
	return n, err
}
