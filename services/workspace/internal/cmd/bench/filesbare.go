package main

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

// bare writes and reads files by the driver alone: the statements that the store sends for them, over the same tables, together in the same two round trips, without what the store thinks and
// checks. Its buckets were made by the store.
type bare struct {
	b                         *bench
	pool                      *pgxpool.Pool
	content, state, signature []byte
	sum                       string

	mu  sync.Mutex
	ids []int64
}

func newBare(b *bench, dsn string, content []byte, path func(int) string) *bare {
	cfg, err := pgxpool.ParseConfig(dsn)
	b.must(err)
	cfg.MaxConns = 16 // as many as a store has
	pool, err := pgxpool.NewWithConfig(b.ctx, cfg)
	b.must(err)
	b.Cleanup(pool.Close)
	h := sha256.New()
	h.Write(content)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	b.must(err)
	r := &bare{b: b, pool: pool, content: content, state: state, signature: trigram.Of(content), sum: hex.EncodeToString(h.Sum(nil))}
	// Buckets of its own, as the store left those of its clients.
	for c := range 32 {
		var id int64
		b.must(pool.QueryRow(b.ctx, `INSERT INTO spaces (name, generation, seq, revisions, bytes, files, whiteouts)
			SELECT $1, generation, seq, revisions, bytes, files, whiteouts FROM spaces WHERE name = $2 RETURNING id`, bucket("bare", c), bucket("user", c)).Scan(&id))
		_, err := pool.Exec(b.ctx, `INSERT INTO nodes SELECT $1, key, path, parent, parent_hash, kind, size, mtime, revision, sha256, mode, author, content_id
			FROM nodes WHERE space_id = (SELECT id FROM spaces WHERE name = $2)`, id, bucket("user", c))
		b.must(err)
		for n := range pathsOfClient {
			r.write(b.ctx, c, path(n))
		}
	}
	return r
}

// bucket names the bucket of a client.
func bucket(user string, c int) string { return fmt.Sprintf("default/user/coder/%s%d", user, c) }

// nextID gives a number for a row of contents; a hundred are fetched at once.
func (r *bare) nextID(ctx context.Context, conn *pgxpool.Conn) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) == 0 {
		rows, err := conn.Query(ctx, `SELECT nextval(pg_get_serial_sequence('contents', 'id')) FROM generate_series(1, 100)`)
		r.b.must(err)
		r.ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		r.b.must(err)
	}
	id := r.ids[0]
	r.ids = r.ids[1:]
	return id
}

// write replaces a file and keeps what it replaces.
func (r *bare) write(ctx context.Context, c int, path string) {
	conn, err := r.pool.Acquire(ctx)
	r.b.must(err)
	defer conn.Release()
	var space, seq, rev, bytes, files, whiteouts int64
	var generation string
	var old struct {
		path, revision, sum, author            string
		kind, size, mtime, mode, id, kept, one int64
	}
	look := &pgx.Batch{}
	look.Queue("BEGIN")
	look.Queue(`SELECT id, generation, seq, revisions, bytes, files, whiteouts FROM spaces WHERE name = $1 FOR UPDATE`, bucket("bare", c)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&space, &generation, &seq, &rev, &bytes, &files, &whiteouts)
	})
	look.Queue(`SELECT n.path, n.kind, n.size, n.mtime, n.revision, n.sha256, n.mode, n.author, n.content_id,
		(SELECT count(*) FROM revisions r WHERE r.space_id = n.space_id AND r.key = n.key), (SELECT count(*) FROM (SELECT 1 FROM revisions r WHERE r.content_id = n.content_id LIMIT 1) x)
		FROM nodes n WHERE n.space_id = (SELECT id FROM spaces WHERE name = $1) AND n.key IN ($2, $3)`, bucket("bare", c), "notes", path).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&old.path, &old.kind, &old.size, &old.mtime, &old.revision, &old.sum, &old.mode, &old.author, &old.id, &old.kept, &old.one); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	r.b.must(conn.SendBatch(ctx, look).Close())
	id, now := r.nextID(ctx, conn), time.Now().UnixMicro()
	change := &pgx.Batch{}
	change.Queue(`INSERT INTO contents (id, space_id, loose_since, hash_state, key, rev, signature) OVERRIDING SYSTEM VALUE VALUES ($6, $1, 0, $2, $3, $4, $5)`,
		space, r.state, path, rev+1, r.signature, id)
	change.Queue(`INSERT INTO chunks (content_id, start, data) VALUES ($1, 0, $2)`, id, r.content)
	revision := fmt.Sprint(generation, rev+1)
	change.Queue(`INSERT INTO nodes (space_id, key, path, parent, parent_hash, kind, size, mtime, revision, sha256, mode, author, content_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (space_id, key) DO UPDATE SET path = excluded.path, size = excluded.size, mtime = excluded.mtime, revision = excluded.revision,
		sha256 = excluded.sha256, mode = excluded.mode, author = excluded.author, content_id = excluded.content_id`,
		space, path, path, "notes", 0, 1, len(r.content), now, revision, r.sum, 0o644, "ana", id)
	change.Queue(`INSERT INTO revisions (space_id, key, seq, path, size, mtime, revision, sha256, mode, author, content_id, replaced, removed, live)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		space, path, rev+2, path, old.size, old.mtime, old.revision, old.sum, old.mode, old.author, old.id, now, 0, 0)
	change.Queue(`INSERT INTO changes (space_id, seq, kind, path, from_path, revision, time, author) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		space, seq+1, 1, path, "", revision, now, "ana")
	change.Queue(`UPDATE spaces SET seq = $2, revisions = $3, bytes = $4, files = $5, whiteouts = $6 WHERE id = $1`, space, seq+1, rev+2, bytes, files, whiteouts)
	change.Queue("COMMIT")
	r.b.must(conn.SendBatch(ctx, change).Close())
}

// read gets node and content of a file by the one statement.
func (r *bare) read(ctx context.Context, c int, path string) {
	rows, err := r.pool.Query(ctx, `SELECT n.path, n.kind, n.size, n.mtime, n.revision, n.sha256, n.mode, n.author, n.content_id, c.data
		FROM nodes n LEFT JOIN chunks c ON c.content_id = n.content_id AND c.start = 0 AND n.key = $2 AND n.size <= $3
		WHERE n.space_id = (SELECT id FROM spaces WHERE name = $1) AND n.key IN ($4, $5)`, bucket("bare", c), path, smallBytes, "notes", path)
	r.b.must(err)
	defer rows.Close()
	var name, revision, sum, author string
	var kind, size, mtime, mode, id int64
	var data []byte
	for rows.Next() {
		r.b.must(rows.Scan(&name, &kind, &size, &mtime, &revision, &sum, &mode, &author, &id, &data))
	}
	r.b.must(rows.Err())
}
