package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// rollbackTime bounds the wait for the end of a transaction whose caller may have gone.
const rollbackTime = 2 * time.Second

// Update implements [sqlstore.DB]. The statements of f lock the row of the space; what the database asks to be repeated is repeated.
func (d *db) Update(ctx context.Context, _ files.Space, f func(context.Context, sqlstore.Querier) error) error {
	for try := 1; ; try++ {
		err := d.transact(ctx, f)
		if err == nil || try == maxTries || !repeatable(err) {
			return err
		}
	}
}

// transact runs f in a transaction. The first statement brings the begin along, and the last ones travel with the commit.
func (d *db) transact(ctx context.Context, f func(context.Context, sqlstore.Querier) error) (err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an update panicked: %v", p)
		}
		if err != nil {
			rollback(conn)
		}
	}()
	t := &tx{db: d, conn: conn.Conn()}
	t.queue("BEGIN", nil)
	if err := f(ctx, t); err != nil {
		return err
	}
	return t.commit(ctx)
}

// rollback ends a transaction. The pool gives a connection up that stays in one, with which the server ends it too.
func rollback(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK") // the error that led here is the one to tell
}

// tx runs the statements of one transaction. Those of which nobody needs the outcome wait for the next one, and travel with it in one round trip.
type tx struct {
	db      *db
	conn    *pgx.Conn
	waiting *pgx.Batch
	bytes   int // of what waits, roughly
}

const (
	// maxWaiting and maxWaitingBytes bound what waits.
	maxWaiting, maxWaitingBytes = 64, 1 << 20
)

// queue adds a statement to those that wait.
func (t *tx) queue(statement string, args []any) *pgx.QueuedQuery {
	if t.waiting == nil {
		t.waiting = &pgx.Batch{}
	}
	return t.waiting.Queue(statement, args...)
}

// send runs what waits.
func (t *tx) send(ctx context.Context) error {
	batch := t.waiting
	t.waiting, t.bytes = nil, 0
	return t.conn.SendBatch(ctx, batch).Close()
}

// commit runs what waits and ends the transaction.
func (t *tx) commit(ctx context.Context) error {
	t.queue("COMMIT", nil).Exec(func(done pgconn.CommandTag) error {
		if done.String() != "COMMIT" {
			return errors.New("the transaction was rolled back, since one of its statements had failed")
		}
		return nil
	})
	return t.send(ctx)
}

// Do implements [sqlstore.Querier].
func (t *tx) Do(ctx context.Context, statement string, args ...any) error {
	t.queue(t.db.statement(statement), args)
	for _, a := range args {
		if data, ok := a.([]byte); ok {
			t.bytes += len(data)
		}
	}
	if t.waiting.Len() < maxWaiting && t.bytes < maxWaitingBytes {
		return nil
	}
	return t.send(ctx)
}

// Exec implements [sqlstore.Querier].
func (t *tx) Exec(ctx context.Context, statement string, args ...any) (changed int64, err error) {
	t.queue(t.db.statement(statement), args).Exec(func(done pgconn.CommandTag) error {
		changed = done.RowsAffected()
		return nil
	})
	err = t.send(ctx)
	return changed, err
}

// Query implements [sqlstore.Querier].
func (t *tx) Query(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	if t.waiting == nil {
		return query(ctx, t.conn, t.db.statement(statement), scan, args)
	}
	t.later(statement, scan, args)
	return t.send(ctx)
}

// Later implements [sqlstore.Querier].
func (t *tx) Later(_ context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	t.later(statement, scan, args)
	return nil
}

func (t *tx) later(statement string, scan func(sqlstore.Row) error, args []any) {
	t.queue(t.db.statement(statement), args).Query(func(rows pgx.Rows) error { return each(rows, scan) })
}
