package sqlite

import (
	"context"
	"sync/atomic"

	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// The states of a job.
const (
	queued int32 = iota
	begun
	abandoned
)

// job is one transaction that waits for the writer.
type job struct {
	fn    func(task.Tx) error
	state atomic.Int32
	done  chan struct{}

	// What came of it; read after done is closed.
	err      error
	panicked any
	signals  []task.Signal
}

// Update runs fn in a transaction, together with others that wait.
func (s *Store) Update(ctx context.Context, fn func(task.Tx) error) error {
	j := &job{fn: fn, done: make(chan struct{})}
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	select {
	case s.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return errClosed
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.state.CompareAndSwap(queued, abandoned) {
			return ctx.Err()
		}
		<-j.done
	case <-s.finished:
		// The writer has gone. It may have run this job before.
		select {
		case <-j.done:
		default:
			return errClosed
		}
	}
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.err
}

// write is the writer. It takes what waits, runs it and commits it at once.
func (s *Store) write() {
	defer close(s.finished)
	batch := make([]*job, 0, s.cfg.MaxBatch)
	for {
		batch = batch[:0]
		select {
		case j := <-s.jobs:
			batch = append(batch, j)
		case <-s.closing:
			return
		}
	drain:
		for len(batch) < s.cfg.MaxBatch {
			select {
			case j := <-s.jobs:
				batch = append(batch, j)
			default:
				break drain
			}
		}
		s.commit(batch)
	}
}

// commit runs a batch in one transaction of the database. A job that fails is undone alone; when the commit fails, all have failed.
func (s *Store) commit(batch []*job) {
	defer func() {
		for _, j := range batch {
			close(j.done)
		}
	}()
	fail := func(err error) {
		s.writer.exec("ROLLBACK")
		for _, j := range batch {
			if j.err == nil {
				j.err, j.signals = err, nil
			}
		}
	}
	if _, err := s.writer.exec("BEGIN IMMEDIATE"); err != nil {
		fail(err)
		return
	}
	for _, j := range batch {
		if !j.state.CompareAndSwap(queued, begun) {
			continue
		}
		if err := s.run(j); err != nil {
			fail(err)
			return
		}
	}
	if _, err := s.writer.exec("COMMIT"); err != nil {
		fail(err)
		return
	}
	for _, j := range batch {
		s.publish(j.signals)
	}
}

// run runs one job within a savepoint. The error is one of the whole batch: the database gave up the transaction.
func (s *Store) run(j *job) error {
	if _, err := s.writer.exec("SAVEPOINT job"); err != nil {
		return err
	}
	t := &tx{conn: s.writer, store: s, now: s.now()}
	func() {
		defer func() { j.panicked = recover() }()
		j.err = j.fn(t)
	}()
	if j.err == nil && j.panicked == nil {
		j.signals = t.signals
	} else if _, err := s.writer.exec("ROLLBACK TO job"); err != nil {
		return err
	}
	_, err := s.writer.exec("RELEASE job")
	return err
}
