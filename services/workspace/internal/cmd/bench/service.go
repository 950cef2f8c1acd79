package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
)

// settings make the configuration of a backend.
type settings func(b *bench, cfg *workspace.Config)

func sqliteSettings(_ *bench, cfg *workspace.Config) { cfg.Backend = workspace.BackendSQLite }

func postgresSettings(b *bench, cfg *workspace.Config) {
	cfg.Backend, cfg.Postgres = workspace.BackendPostgres, config.Secret(testkit.DurablePostgres(b))
}

func redisSettings(b *bench, cfg *workspace.Config) {
	cfg.Backend, cfg.Redis = workspace.BackendRedis, config.Secret(testkit.Redis(b))
}

// settle brings a PostgreSQL that was filled a moment ago into the state in which autovacuum and the checkpointer keep one: the table known to the planner, the log written.
func settle(b *bench, dsn string) {
	conn, err := pgx.Connect(b.ctx, dsn)
	b.must(err)
	defer conn.Close(b.ctx)
	for _, statement := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		_, err = conn.Exec(b.ctx, statement)
		b.must(err)
	}
}

// serve runs a service in this process behind the whole chain, as one process of everything has it, and connects to it.
func serve(b *bench, set settings) *grpc.ClientConn {
	cfg := workspace.DefaultConfig()
	cfg.Workspace = filepath.Join(b.TempDir(), "workspace")
	cfg.Data = filepath.Join(cfg.Workspace, ".gantry-runtime")
	cfg.MaxFiles, cfg.MaxBytes = 0, 0
	set(b, &cfg)
	service, err := workspace.New(b.ctx, cfg, workspace.Deps{})
	b.must(err)
	auth, err := access.New(access.Config{Mode: access.ModeNone}, access.Options{})
	b.must(err)
	chain, err := middleware.Default(middleware.Options{Access: auth})
	b.must(err)
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:workspace"}, chain, network)
	b.must(err)
	service.Register(s.Registrar())
	b.must(s.Start(b.ctx))
	conn, err := client.Dial("memory:workspace", network)
	b.must(err)
	b.Cleanup(func() {
		if err := errors.Join(conn.Close(), s.Stop(context.Background()), service.Stop(context.Background())); err != nil {
			b.Errorf("stop: %v", err)
		}
	})
	return conn
}

// text makes the content of a file: words of a small vocabulary, some of them only in this file or in few.
func text(n, size int) []byte {
	words := []string{
		"return", "error", "context", "the", "value", "Agent", "workspace", "func", "if", "nil", "config", "Session", "memory", "import", "string", "handler", "request", "for", "range", "map",
	}
	out := make([]byte, 0, size+100)
	state := uint64(n)*2654435761 + 12345
	for line := 0; len(out) < size; line++ {
		for range 8 {
			state = state*6364136223846793005 + 1442695040888963407
			out = append(out, words[state>>59%uint64(len(words))]...)
			out = append(out, ' ')
		}
		switch {
		case line == 3:
			out = fmt.Appendf(out, "unique_%05d", n)
		case line == 5 && n%100 == 7:
			out = append(out, "RareMarker of some files"...)
		case line == 7 && n%1000 == 9:
			out = append(out, "Grüße aus Köln"...)
		}
		out = append(out, '\n')
	}
	return out[:size]
}
