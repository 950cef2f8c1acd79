package journalsqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
)

// dialect is SQLite's: one transaction at a time needs no locks.
var dialect = journalsql.Dialect{ByTurn: " INDEXED BY threads_turn"}

// session is one connection with the statements prepared on it. One goroutine uses it at a time.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, stmts: make(map[string]*sql.Stmt)}, nil
}

func (s *session) close() {
	for _, st := range s.stmts {
		_ = st.Close()
	}
	s.stmts = nil
	_ = s.conn.Close()
}

// stmt prepares a statement once. The texts are constants of this package, so their number is bounded. No caller's context reaches the
// driver: a transaction is shared, and nobody may interrupt it for the others.
func (s *session) stmt(query string) (*sql.Stmt, error) {
	if st := s.stmts[query]; st != nil {
		return st, nil
	}
	st, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

// Do implements [journalsql.Session].
func (s *session) Do(query string, args ...any) error {
	_, err := s.Exec(query, args...)
	return err
}

// Exec implements [journalsql.Session].
func (s *session) Exec(query string, args ...any) (int64, error) {
	st, err := s.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := st.Exec(args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Insert implements [journalsql.Session].
func (s *session) Insert(query string, args ...any) (int64, error) {
	st, err := s.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := st.Exec(args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// Get implements [journalsql.Session].
func (s *session) Get(query string, args []any, dest ...any) (bool, error) {
	st, err := s.stmt(query)
	if err != nil {
		return false, err
	}
	switch err := st.QueryRow(args...).Scan(dest...); err {
	case nil:
		return true, nil
	case sql.ErrNoRows:
		return false, nil
	default:
		return false, err
	}
}

// Each implements [journalsql.Session].
func (s *session) Each(query string, args []any, f func(scan func(...any) error) (more bool, err error)) error {
	st, err := s.stmt(query)
	if err != nil {
		return err
	}
	rows, err := st.Query(args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		more, err := f(rows.Scan)
		if err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// snapshot runs f in a reading transaction.
func (s *session) snapshot(now time.Time, f func(*journalsql.View) error) error {
	if err := s.Do("BEGIN"); err != nil {
		return err
	}
	err := f(&journalsql.View{Session: s, Dialect: &dialect, Now: now})
	if e := s.Do("COMMIT"); err == nil {
		err = e
	}
	return err
}

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the file to the newest schema; its number is SQLite's user_version. A file of a newer program is refused.
func migrate(s *session) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.Do("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err = func() error {
		var have int
		if err := s.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
			return err
		}
		if have > len(files) {
			return errNewer(have, len(files))
		}
		for i := have; i < len(files); i++ {
			text, err := migrations.ReadFile("migrations/" + files[i].Name())
			if err != nil {
				return err
			}
			if _, err := s.conn.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", files[i].Name(), err)
			}
		}
		_, err := s.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(files)))
		return err
	}()
	if err != nil {
		_ = s.Do("ROLLBACK")
		return err
	}
	return s.Do("COMMIT")
}
