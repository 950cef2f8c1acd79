package journalpostgres

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables to the newest schema. A database of a newer program is refused.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS public.journal_migrations (name TEXT PRIMARY KEY)`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT name FROM public.journal_migrations ORDER BY name`)
		if err != nil {
			return err
		}
		done, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for i, name := range done {
			if i >= len(entries) || entries[i].Name() != name {
				return errNewer(name)
			}
		}
		for _, e := range entries[len(done):] {
			text, err := migrations.ReadFile("migrations/" + e.Name())
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("migration %s: %w", e.Name(), err)
			}
			if _, err := tx.Exec(ctx, `INSERT INTO public.journal_migrations (name) VALUES ($1)`, e.Name()); err != nil {
				return err
			}
		}
		return nil
	})
}
