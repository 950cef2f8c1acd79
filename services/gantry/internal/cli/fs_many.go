package cli

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// maxFailures bounds how many failures of a transfer are shown; all are counted.
const maxFailures = 50

// Parallel says how many files are on the way at once.
type Parallel struct {
	Parallel int `help:"With -r: so many files at once." default:"4"`
}

func (p Parallel) workers() int { return min(max(p.Parallel, 1), 64) }

// each runs do for every job that walk hands out, with at most so many at once. A failure of one job is for do to tell; walk's own error ends everything, and so does stop.
func each[T any](ctx context.Context, workers int, walk func(ctx context.Context, hand func(T) error) error, do func(ctx context.Context, stop context.CancelCauseFunc, job T)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	jobs := make(chan T)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for job := range jobs {
				if ctx.Err() == nil {
					do(ctx, stop, job)
				}
			}
		})
	}
	err := walk(ctx, func(job T) error {
		select {
		case jobs <- job:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(jobs)
	wait.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// Tally counts what a transfer of many files did, and tells what failed as it happens. It is safe for concurrent use.
type Tally struct {
	env      *Env
	json     bool
	progress *Progress

	mu    sync.Mutex
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Failed counts what was to be transferred and was not, LeftOut what can't be.
	Failed  int64 `json:"failed"`
	LeftOut int64 `json:"left_out"`
}

func newTally(env *Env, json bool, p *Progress) *Tally {
	return &Tally{env: env, json: json, progress: p}
}

// done counts a file.
func (t *Tally) done(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Files++
	t.Bytes += bytes
	t.progress.file()
}

// fail tells a failure.
func (t *Tally) fail(path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Failed++; t.Failed <= maxFailures {
		t.tell("failed", path, Explain(err))
	}
}

// leave tells what is no file that could be transferred.
func (t *Tally) leave(path, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.LeftOut++; t.LeftOut <= maxFailures {
		t.tell("left out", path, why)
	}
}

func (t *Tally) tell(what, path, why string) {
	t.progress.clear()
	if t.json {
		_ = t.env.errorValue(map[string]string{what: path, "reason": why}) // a standard error that is gone has no reader
		return
	}
	t.env.Note("%s: %s: %s", what, path, why)
}

// end prints the sum. Failures make exit code 1.
func (t *Tally) end(verb string) error {
	t.progress.clear()
	if t.json {
		if err := t.env.Value(t); err != nil {
			return err
		}
	} else {
		line := verb + " " + count(t.Files, "file") + ", " + sizeText(t.Bytes)
		if t.Failed > 0 {
			line += "; " + plain(t.Failed) + " failed"
		}
		if t.LeftOut > 0 {
			line += "; " + plain(t.LeftOut) + " left out"
		}
		t.env.Line("%s", line)
	}
	if t.Failed > 0 {
		return exitCode(ExitFailed)
	}
	return nil
}

// hopeless says whether an error will meet every other file too.
func hopeless(err error) bool {
	var typed *errdefs.Error
	if errors.As(err, &typed) && errors.Is(err, errdefs.ErrUnavailable) && typed.Reason != "" {
		return false
	}
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrUnauthenticated) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// value prints a message among others that may be printed at the same time.
func (t *Tally) value(m proto.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.env.JSON(m)
}
