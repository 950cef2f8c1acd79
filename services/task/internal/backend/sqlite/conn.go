package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// conn is one connection with its prepared statements. It is for one goroutine at a time.
type conn struct {
	raw   *sql.Conn
	stmts map[string]*sql.Stmt
}

func newConn(ctx context.Context, db *sql.DB) (*conn, error) {
	raw, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: make(map[string]*sql.Stmt)}, nil
}

// stmt prepares a statement once. Queries are composed of a bounded set of texts, so the map is bounded too.
//
// Statements run without the caller's context: they are short, and one that is cut in the middle of a batch would take others with it.
func (c *conn) stmt(query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.raw.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, storeError(err)
	}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) exec(query string, args ...any) (sql.Result, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	return result, storeError(err)
}

// row scans one row; no row is sql.ErrNoRows.
func (c *conn) row(query string, args []any, into ...any) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	return storeError(s.QueryRowContext(context.Background(), args...).Scan(into...))
}

// each calls scan for every row.
func (c *conn) each(query string, args []any, scan func(*sql.Rows) error) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return storeError(err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(storeError(err), rows.Close())
		}
	}
	return storeError(errors.Join(rows.Err(), rows.Close()))
}

func (c *conn) close() error {
	errs := make([]error, 0, len(c.stmts)+1)
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// micros stores a time; zero is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicros(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}
