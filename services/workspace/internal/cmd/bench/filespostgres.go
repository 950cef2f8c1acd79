package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	smallBytes = 2048
	rateRounds = 6
	rateTime   = 1200 * time.Millisecond
	// pathsOfClient are written and read in turn.
	pathsOfClient = 50
)

// filesPostgres compares writing and reading 2 KB with the bare driver that changes and reads the same rows, each client in a bucket of its own. What is held to the goal is
// the store as the service calls it; what a client of the service sees is told beside it.
func filesPostgres(b *bench) {
	dsn := testkit.DurablePostgres(b)
	client := filesystemv1.NewFilesystemServiceClient(serve(b, func(_ *bench, cfg *workspace.Config) {
		cfg.Backend, cfg.Postgres = workspace.BackendPostgres, config.Secret(dsn)
	}))
	store, err := postgres.Open(b.ctx, postgres.Config{DSN: dsn, History: files.DefaultHistory()}, time.Now)
	b.must(err)
	b.Cleanup(func() { _ = store.Close() })
	bare := newBare(b, dsn)
	content := text(1, smallBytes)
	path := func(n int) string { return fmt.Sprintf("notes/file%02d.md", n%pathsOfClient) }
	view := func(c int) *files.View {
		return files.NewView(store, files.Space(fmt.Sprintf("default/user/coder/user%d", c)), nil, files.Limits{}, time.Now)
	}
	storeWrite := func(c, n int) {
		staged, err := store.Stage(b.ctx, bytes.NewReader(content), 0)
		b.must(err)
		_, err = view(c).Write(b.ctx, files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(path(n))}, staged)
		b.must(err)
	}
	storeRead := func(c, n int) {
		_, _, err := view(c).ReadAll(b.ctx, fsops.PathOf(path(n)), smallBytes)
		b.must(err)
	}
	as := func(c int) context.Context {
		return identity.NewContext(b.ctx, identity.Identity{User: fmt.Sprintf("client%d", c)})
	}
	rpcWrite := func(c, n int) {
		_, err := client.Write(as(c), &filesystemv1.WriteRequest{Path: path(n), Content: content})
		b.must(err)
	}
	rpcRead := func(c, n int) {
		_, err := client.Read(as(c), &filesystemv1.ReadRequest{Path: path(n)})
		b.must(err)
	}
	bareWrite := func(c, n int) { bare.write(b.ctx, c, path(n), content) }
	bareRead := func(c, n int) { bare.read(b.ctx, c, path(n)) }
	for c := range 32 {
		for n := range pathsOfClient {
			storeWrite(c, n)
			rpcWrite(c, n)
			bareWrite(c, n)
		}
	}
	for _, clients := range []int{1, 8, 32} {
		settle(b, dsn)
		for _, what := range []struct {
			name                 string
			bare, store, service func(c, n int)
		}{{"write", bareWrite, storeWrite, rpcWrite}, {"read", bareRead, storeRead, rpcRead}} {
			ratio, base, got := measure.Rates(rateRounds, clients, rateTime, what.bare, what.store)
			calls := measure.Rate(clients, rateTime, what.service)
			b.say("files-postgres: %-5s %2d clients: bare %.0f/s, store %.0f/s, ratio %.2f; calls of the service %.0f/s", what.name, clients, base, got, ratio, calls)
			b.report.AtLeast(fmt.Sprintf("%s_postgres_%d_clients_ratio", what.name, clients), measure.Round2(ratio), 0.6)
			b.report.Tell(fmt.Sprintf("%s_postgres_%d_clients_calls_per_second", what.name, clients), int(calls))
		}
	}
}

// bare is the driver alone, with tables that hold what a file is made of.
type bare struct {
	b    *bench
	pool *pgxpool.Pool
}

func newBare(b *bench, dsn string) *bare {
	cfg, err := pgxpool.ParseConfig(dsn)
	b.must(err)
	cfg.MaxConns = 16 // as many as a store has
	pool, err := pgxpool.NewWithConfig(b.ctx, cfg)
	b.must(err)
	b.Cleanup(pool.Close)
	_, err = pool.Exec(b.ctx, `CREATE SCHEMA bare;
		CREATE TABLE bare.spaces (id bigint PRIMARY KEY, seq bigint NOT NULL, bytes bigint NOT NULL);
		CREATE TABLE bare.nodes (space_id bigint, key text COLLATE "C", parent text COLLATE "C", size bigint, mtime bigint, revision text, sha256 text, content_id bigint, PRIMARY KEY (space_id, key));
		CREATE INDEX ON bare.nodes (space_id, parent, key);
		CREATE TABLE bare.contents (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, space_id bigint, hash_state bytea);
		CREATE TABLE bare.chunks (content_id bigint, start bigint, data bytea, PRIMARY KEY (content_id, start));
		CREATE TABLE bare.changes (space_id bigint, seq bigint, kind bigint, path text, revision text, time bigint, author text, PRIMARY KEY (space_id, seq));
		CREATE TABLE bare.revisions (space_id bigint, key text COLLATE "C", seq bigint, size bigint, revision text, sha256 text, content_id bigint, replaced bigint, PRIMARY KEY (space_id, key, seq));
		INSERT INTO bare.spaces SELECT n, 0, 0 FROM generate_series(0, 31) n`)
	b.must(err)
	return &bare{b, pool}
}

// write makes the rows of a write that replaces a file and keeps what it replaces, in one transaction: the lock of the space, content, chunk, node, revision, log, counters.
func (r *bare) write(ctx context.Context, space int, path string, content []byte) {
	tx, err := r.pool.Begin(ctx)
	r.b.must(err)
	defer tx.Rollback(ctx)
	var seq, id int64
	r.b.must(tx.QueryRow(ctx, `SELECT seq FROM bare.spaces WHERE id = $1 FOR UPDATE`, space).Scan(&seq))
	r.b.must(tx.QueryRow(ctx, `INSERT INTO bare.contents (space_id, hash_state) VALUES ($1, $2) RETURNING id`, space, content[:108]).Scan(&id))
	seq++
	revision, now := fmt.Sprintf("bare%d", seq), time.Now().UnixMicro()
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO bare.chunks VALUES ($1, 0, $2)`, id, content)
	batch.Queue(`INSERT INTO bare.revisions SELECT space_id, key, $3, size, revision, sha256, content_id, $4 FROM bare.nodes WHERE space_id = $1 AND key = $2`, space, path, seq, now)
	batch.Queue(`INSERT INTO bare.nodes VALUES ($1, $2, 'notes', $3, $4, $5, $6, $7) ON CONFLICT (space_id, key) DO UPDATE SET size = excluded.size, mtime = excluded.mtime,
		revision = excluded.revision, sha256 = excluded.sha256, content_id = excluded.content_id`, space, path, len(content), now, revision, revision, id)
	batch.Queue(`INSERT INTO bare.changes VALUES ($1, $2, 1, $3, $4, $5, 'ana')`, space, seq, path, revision, now)
	batch.Queue(`UPDATE bare.spaces SET seq = $2, bytes = bytes + $3 WHERE id = $1`, space, seq, len(content))
	r.b.must(tx.SendBatch(ctx, batch).Close())
	r.b.must(tx.Commit(ctx))
}

// read gets node and content of a file by one statement.
func (r *bare) read(ctx context.Context, space int, path string) {
	var size int64
	var revision, sum string
	var data []byte
	r.b.must(r.pool.QueryRow(ctx, `SELECT n.size, n.revision, n.sha256, c.data FROM bare.nodes n JOIN bare.chunks c ON c.content_id = n.content_id AND c.start = 0
		WHERE n.space_id = $1 AND n.key = $2`, space, path).Scan(&size, &revision, &sum, &data))
}
