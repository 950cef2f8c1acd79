package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
)

const (
	// groupSize bounds how many updates share one commit.
	groupSize = 64
	// queueSize bounds how many updates wait in line; more wait at the door, each as long as its context allows.
	queueSize = 1024
)

// writer runs updates one after another on the only connection that writes.
type writer struct {
	db   *sql.DB
	jobs chan *job
	quit chan struct{}
	done chan struct{}
	once sync.Once
}

type job struct {
	ctx  context.Context
	f    func(context.Context, sqlstore.Querier) error
	done chan error
}

func startWriter(db *sql.DB) *writer {
	w := &writer{db: db, jobs: make(chan *job, queueSize), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// do runs f and returns when its transaction is durable. A context that ends before f began takes it out of the line; later, the outcome is awaited.
func (w *writer) do(ctx context.Context, f func(context.Context, sqlstore.Querier) error) error {
	j := &job{ctx: ctx, f: f, done: make(chan error, 1)}
	select {
	case <-w.quit:
		return errClosed()
	default:
	}
	select {
	case w.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed()
	}
	select {
	case err := <-j.done:
		return err
	case <-w.done:
		select {
		case err := <-j.done:
			return err
		default:
			return errClosed()
		}
	}
}

// stop ends the writer after the group in work. What waits is refused.
func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case <-w.quit:
			return
		case first := <-w.jobs:
			w.group(first)
		}
	}
}

// group runs a job, and those that wait behind it, in one transaction.
func (w *writer) group(first *job) {
	ctx := context.Background()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		first.done <- err
		return
	}
	var good []*job
	for j, n := first, 1; j != nil; n++ {
		switch err := runJob(tx, j); {
		case err == nil:
			good = append(good, j)
		default:
			j.done <- err
		}
		j = nil
		if n < groupSize {
			select {
			case j = <-w.jobs:
			default:
			}
		}
	}
	err = tx.Commit()
	for _, j := range good {
		j.done <- err
	}
}

// runJob runs one job behind a savepoint, so that its failure undoes nothing of others.
func runJob(tx *sql.Tx, j *job) (err error) {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	ctx := context.WithoutCancel(j.ctx)
	if _, err := tx.ExecContext(ctx, "SAVEPOINT job"); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an update panicked: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			if _, undo := tx.ExecContext(ctx, "ROLLBACK TO job"); undo != nil {
				err = fmt.Errorf("undo an update: %w (after %w)", undo, err)
			}
		}
		if _, release := tx.ExecContext(ctx, "RELEASE job"); release != nil && err == nil {
			err = release
		}
	}()
	return j.f(j.ctx, txQuerier{tx: tx, ctx: j.ctx})
}

// txQuerier runs statements of a job. They are never interrupted half-way, since that would undo the whole group: the end of the job's context is seen between two.
type txQuerier struct {
	tx  *sql.Tx
	ctx context.Context
}

func (q txQuerier) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if err := q.ctx.Err(); err != nil {
		return 0, err
	}
	result, err := q.tx.ExecContext(context.WithoutCancel(ctx), statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q txQuerier) Do(ctx context.Context, statement string, args ...any) error {
	_, err := q.Exec(ctx, statement, args...)
	return err
}

func (q txQuerier) Query(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	if err := q.ctx.Err(); err != nil {
		return err
	}
	rows, err := q.tx.QueryContext(context.WithoutCancel(ctx), statement, args...)
	return each(rows, err, scan)
}

func (q txQuerier) Later(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	return q.Query(ctx, statement, scan, args...)
}

func errClosed() error {
	return errdefs.New(errdefs.ErrUnavailable, fsops.Domain, "", "the store is closed")
}
