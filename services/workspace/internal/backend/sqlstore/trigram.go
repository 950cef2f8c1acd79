package sqlstore

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

// The index of searches is in the rows of contents, so that it changes with them and costs no statement of its own: the signature of the content, the key of the file whose
// content it is, and the number of the revision that made it so. By that number a replica finds what has changed since it looked last. Rows that a replaced file left behind keep
// theirs; a row of the same key with a higher number counts instead.

// newIndexedContent makes the row of content that the next revision of a file has.
func (t *tx) newIndexedContent(ctx context.Context, p fsops.Path, s *staged) (id int64, err error) {
	if id, err = t.nextID(ctx); err != nil {
		return 0, err
	}
	if id != 0 {
		return id, t.q.Do(ctx, `INSERT INTO contents (id, space_id, loose_since, hash_state, key, rev, signature) OVERRIDING SYSTEM VALUE VALUES (?6, ?1, 0, ?2, ?3, ?4, ?5)`,
			t.id, s.state, p.Key(), t.rev+1, []byte(s.signature), id)
	}
	err = t.q.Query(ctx, `INSERT INTO contents (space_id, loose_since, hash_state, key, rev, signature) VALUES (?1, 0, ?2, ?3, ?4, ?5) RETURNING id`,
		func(row Row) error { return row.Scan(&id) }, t.id, s.state, p.Key(), t.rev+1, []byte(s.signature))
	return id, err
}

// indexMoved says that the revision of a file that was just given out has this content.
func (t *tx) indexMoved(ctx context.Context, id int64, p fsops.Path) error {
	return t.q.Do(ctx, `UPDATE contents SET key = ?2, rev = ?3 WHERE id = ?1`, id, p.Key(), t.rev)
}

// appended returns the signature of content that data was added to. It costs the same at any size, except that one that has grown too full is made anew from the whole content,
// with room for as much again.
func (t *tx) appended(ctx context.Context, id, size int64, old, data []byte) ([]byte, error) {
	if size > trigram.MaxBytes {
		return nil, nil
	}
	if size == int64(len(data)) {
		return trigram.Of(data), nil // nothing was there
	}
	out, ok := trigram.Signature(old).Append(data)
	if ok {
		return out, nil
	}
	whole := make([]byte, 0, size)
	err := t.q.Query(ctx, `SELECT data FROM chunks WHERE content_id = ?1 ORDER BY start`, func(row Row) error {
		var part []byte
		err := row.Scan(&part)
		whole = append(whole, part...)
		return err
	}, id)
	return trigram.Roomy(whole), err
}
