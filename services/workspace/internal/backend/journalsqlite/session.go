package journalsqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
)

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

// exec runs a statement and returns how many rows it changed.
func (s *session) exec(query string, args ...any) (int64, error) {
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

// insert runs a statement and returns the id of the new row.
func (s *session) insert(query string, args ...any) (int64, error) {
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

// get scans the one row of a query into dest; false when there is none.
func (s *session) get(query string, args []any, dest ...any) (bool, error) {
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

// each calls f for every row of a query until f wants no more.
func (s *session) each(query string, args []any, f func(scan func(...any) error) (more bool, err error)) error {
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

// ids returns the first column of a query.
func (s *session) ids(query string, args ...any) ([]int64, error) {
	var ids []int64
	err := s.each(query, args, func(scan func(...any) error) (bool, error) {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return true, err
	})
	return ids, err
}

// snapshot runs f in a reading transaction.
func (s *session) snapshot(f func(*session) error) error {
	if _, err := s.exec("BEGIN"); err != nil {
		return err
	}
	err := f(s)
	if _, e := s.exec("COMMIT"); err == nil {
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
	if _, err := s.exec("BEGIN IMMEDIATE"); err != nil {
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
		_, _ = s.exec("ROLLBACK")
		return err
	}
	_, err = s.exec("COMMIT")
	return err
}
