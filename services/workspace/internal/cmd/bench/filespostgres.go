package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

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

// filesPostgres compares writing and reading 2 KB with the same statements by the bare driver, each client in a bucket of its own. What is held to the goal is the store as the service calls it;
// what a client of the service sees is told beside it.
func filesPostgres(b *bench) {
	dsn := testkit.DurablePostgres(b)
	client := filesystemv1.NewFilesystemServiceClient(serve(b, func(_ *bench, cfg *workspace.Config) {
		cfg.Backend, cfg.Postgres = workspace.BackendPostgres, config.Secret(dsn)
	}))
	store, err := postgres.Open(b.ctx, postgres.Config{DSN: dsn, History: files.DefaultHistory()}, time.Now)
	b.must(err)
	b.Cleanup(func() { _ = store.Close() })
	content := text(1, smallBytes)
	path := func(n int) string { return fmt.Sprintf("notes/file%02d.md", n%pathsOfClient) }
	view := func(c int) *files.View {
		return files.NewView(store, files.Space(bucket("user", c)), nil, files.Limits{}, time.Now)
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
	for c := range 32 {
		for n := range pathsOfClient {
			storeWrite(c, n)
			rpcWrite(c, n)
		}
	}
	bare := newBare(b, dsn, content, path)
	bareWrite := func(c, n int) { bare.write(b.ctx, c, path(n)) }
	bareRead := func(c, n int) { bare.read(b.ctx, c, path(n)) }
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
