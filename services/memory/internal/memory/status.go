package memory

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// IndexStatus is the state of one index.
type IndexStatus struct {
	Exists    bool
	Documents int64
	Bytes     int64
	Synced    time.Time
	Heals     int
	Pending   int
	LastError string
}

// Status is the state of a bucket's memory.
type Status struct {
	Index, Threads IndexStatus
	LastRun        time.Time
	PendingBytes   int64
	PendingLedgers int
	Running        bool
	LastError      string
	LastFlushError string
	Ledgers        int
	Bytes          int64
	Tokens         int
	Model          string
}

// Status tells the state without changing it.
func (s *Service) Status(ctx context.Context) (st Status, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return st, err
	}
	files, err := s.memoryFiles(ctx)
	if err != nil {
		return st, err
	}
	mark, err := s.readState(ctx)
	if err != nil {
		return st, err
	}
	for _, f := range sortedMemory(files) {
		st.Bytes += f.Size
		if !ledgerName.MatchString(f.Path) {
			continue
		}
		st.Ledgers++
		if m := mark.Ledgers[f.Path]; m.Revision != f.Revision && f.Size > int64(m.Bytes) {
			st.PendingLedgers++
			st.PendingBytes += f.Size - int64(m.Bytes)
		}
	}
	if _, ok := files[memoryFile]; ok {
		content, _, err := s.files.Read(ctx, memoryFile)
		if err != nil {
			return st, err
		}
		st.Tokens = text.EstimateTokens(string(content))
	}
	key := c.memoryIndex()
	board := s.status.get(key)
	st.LastRun, st.Running = mark.RunTime, s.consolidating.held(c.bucket.Key())
	st.LastError, st.LastFlushError = board.consolidationErr, board.flushErr
	if st.Index, err = s.indexStatus(ctx, key, board); err != nil {
		return st, err
	}
	if st.Index.Pending >= 0 {
		st.Index.Pending, err = s.behind(ctx, key)
		if err != nil {
			return st, err
		}
	}
	if threads, err := c.threadIndex(); err == nil {
		if st.Threads, err = s.indexStatus(ctx, threads, s.status.get(threads)); err != nil {
			return st, err
		}
	}
	if s.opts.Model != nil {
		st.Model = s.opts.Model.Name() + ":" + s.opts.ModelName
	}
	return st, nil
}

// indexStatus describes an index; one that is not open stays closed.
func (s *Service) indexStatus(ctx context.Context, key string, board keyStatus) (IndexStatus, error) {
	state := s.pool.State(ctx, key)
	out := IndexStatus{Exists: state.Exists, Bytes: state.Bytes, Heals: state.Heals, Synced: board.synced, LastError: board.indexErr, Pending: -1}
	if !state.Open {
		return out, nil
	}
	out.Pending = max(0, board.pending)
	err := s.pool.Use(ctx, key, func(l *pool.Lease) error {
		stats, err := l.Stats(ctx)
		out.Documents = stats.Docs
		return err
	})
	return out, public(err, key)
}

// behind counts the files that the open index does not know as they are.
func (s *Service) behind(ctx context.Context, key string) (n int, err error) {
	err = s.pool.Use(ctx, key, func(l *pool.Lease) error {
		todo, gone, err := s.compare(ctx, index.Index(l))
		n = len(todo) + len(gone)
		return err
	})
	return n, public(err, key)
}
