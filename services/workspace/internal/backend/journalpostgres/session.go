package journalpostgres

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
)

// dialect is PostgreSQL's: transactions run side by side and lock what they rely on.
var dialect = journalsql.Dialect{
	Lock: " FOR UPDATE", Keep: " FOR KEY SHARE", SkipLocked: " FOR UPDATE SKIP LOCKED", Place: "place", Unplaced: ", unplaced = TRUE",
	NextChange: "SELECT nextval('journal.changes') WHERE ?1 <> ''",
}

// runner is a connection, or a pool for statements that each are their own transaction.
type runner interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// session implements [journalsql.Session] for one operation. Statements whose result nobody needs wait for the next one and travel with it.
type session struct {
	ctx   context.Context
	conn  runner
	texts *texts
	// waiting are statements that are to be sent, before any other.
	waiting pgx.Batch
}

// begin begins a transaction and returns the store's time; given replaces it unless 0.
func (s *session) begin(statement string, given int64) (now int64, err error) {
	if err := s.Do(statement); err != nil {
		return 0, err
	}
	_, err = s.Get("SELECT clock(?)", []any{given}, &now)
	return now, err
}

// Do implements [journalsql.Session].
func (s *session) Do(query string, args ...any) error {
	s.waiting.Queue(s.texts.statement(query), values(args)...)
	return nil
}

// Exec implements [journalsql.Session].
func (s *session) Exec(query string, args ...any) (int64, error) {
	var changed int64
	s.waiting.Queue(s.texts.statement(query), values(args)...).Exec(func(tag pgconn.CommandTag) error {
		changed = tag.RowsAffected()
		return nil
	})
	return changed, s.flush()
}

// commit ends the transaction, with what waits.
func (s *session) commit() error {
	s.waiting.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errors.New("the transaction was rolled back, since one of its statements had failed")
		}
		return nil
	})
	return s.flush()
}

// flush sends what waits.
func (s *session) flush() error {
	if s.waiting.Len() == 0 {
		return nil
	}
	batch := s.waiting
	s.waiting = pgx.Batch{}
	return s.conn.SendBatch(s.ctx, &batch).Close()
}

// Insert implements [journalsql.Session].
func (s *session) Insert(query string, args ...any) (int64, error) {
	var id int64
	_, err := s.Get(query+" RETURNING id", args, &id)
	return id, err
}

// Get implements [journalsql.Session].
func (s *session) Get(query string, args []any, dest ...any) (bool, error) {
	found := false
	err := s.Each(query, args, func(scan func(...any) error) (bool, error) {
		found = true
		return false, scan(dest...)
	})
	return found, err
}

// Each implements [journalsql.Session].
func (s *session) Each(query string, args []any, f func(scan func(...any) error) (bool, error)) error {
	each := func(rows pgx.Rows) error {
		defer rows.Close()
		scan := func(dest ...any) error { return rows.Scan(targets(dest)...) }
		for rows.Next() {
			more, err := f(scan)
			if err != nil || !more {
				return err
			}
		}
		return rows.Err()
	}
	if s.waiting.Len() == 0 {
		rows, err := s.conn.Query(s.ctx, s.texts.statement(query), values(args)...)
		if err != nil {
			return err
		}
		return each(rows)
	}
	s.waiting.Queue(s.texts.statement(query), values(args)...).Query(each)
	return s.flush()
}

// texts holds statements as written → as PostgreSQL takes them. They are constants, so their number is bounded.
type texts struct{ known sync.Map }

var parameter = regexp.MustCompile(`\?(\d*)`)

// statement gives parameters the form that PostgreSQL takes.
func (t *texts) statement(text string) string {
	if known, ok := t.known.Load(text); ok {
		return known.(string)
	}
	n := 0
	out := parameter.ReplaceAllStringFunc(text, func(p string) string {
		if p == "?" {
			n++
			return "$" + strconv.Itoa(n)
		}
		return strings.Replace(p, "?", "$", 1)
	})
	t.known.Store(text, out)
	return out
}

// values gives arguments the types of the columns: what is true or false is a number.
func values(args []any) []any {
	for i, a := range args {
		if b, ok := a.(bool); ok {
			args[i] = int64(0)
			if b {
				args[i] = int64(1)
			}
		}
	}
	return args
}

// targets undoes [values] for what is read.
func targets(dest []any) []any {
	for i, d := range dest {
		if b, ok := d.(*bool); ok {
			dest[i] = (*flag)(b)
		}
	}
	return dest
}

// flag reads a boolean or a number.
type flag bool

// Scan implements [database/sql.Scanner].
func (f *flag) Scan(value any) error {
	switch v := value.(type) {
	case bool:
		*f = flag(v)
	case int64:
		*f = v != 0
	}
	return nil
}
