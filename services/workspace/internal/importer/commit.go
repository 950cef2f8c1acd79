package importer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// writer is the import as the owner of threads. It lives while the import writes.
type writer struct {
	owner journal.Owner
	stop  func()
}

// writer begins to live with the first thread that is written.
func (w *work) writing(ctx context.Context) (journal.Owner, error) {
	if w.writer != nil {
		return w.writer.owner, nil
	}
	owner := journal.Owner{ID: "import/" + rand.Text()}
	if _, err := w.Journal.Heartbeat(ctx, owner, false); err != nil {
		return owner, err
	}
	beating, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(journal.OwnerLife / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// One that fails shows in the next commit, as an owner that has expired.
				_, _ = w.Journal.Heartbeat(beating, owner, false)
			case <-beating.Done():
				return
			}
		}
	})
	w.writer = &writer{owner: owner, stop: func() { cancel(); wait.Wait() }}
	return owner, nil
}

// leave ends the writer's life.
func (w *work) leaveThreads(ctx context.Context) error {
	if w.writer == nil {
		return nil
	}
	w.writer.stop()
	_, err := w.Journal.Heartbeat(context.WithoutCancel(ctx), w.writer.owner, true)
	w.writer = nil
	return err
}

// commit writes a conversation in batches. Those that an interrupted import has written are answered as repeats.
func (w *work) commit(ctx context.Context, c *conversation) (err error) {
	owner, err := w.writing(ctx)
	if err != nil {
		return err
	}
	claim, err := w.Journal.Acquire(ctx, c.thread, owner, false)
	if err != nil {
		return err
	}
	released := false
	defer func() {
		if !released {
			err = errors.Join(err, w.Journal.Release(context.WithoutCancel(ctx), c.thread, owner.ID, claim.Head.Epoch))
		}
	}()
	var events []journal.Event
	var head, size int64
	var title string
	titleFrom, n := 0, 0
	flush := func(last bool) error {
		if err := w.goOn(ctx); err != nil {
			return err
		}
		b := journal.Batch{
			Owner: owner.ID, Epoch: claim.Head.Epoch, ID: fmt.Sprintf("%s/batch-%d", c.begin(), n), Expected: head,
			Events: events, TitleHint: title, TitleFrom: titleFrom, Release: last,
		}
		done, err := w.Journal.Commit(ctx, c.thread, b)
		if err != nil {
			return err
		}
		head, events, size, title, titleFrom = done.Seq, nil, 0, "", 0
		n++
		return nil
	}
	named := false
	_, err = w.play(ctx, c, func(e journal.Event, hint string) error {
		if len(events) == journal.MaxBatchEvents || len(events) > 0 && size+int64(len(e.Payload)) > batchBytes {
			if err := flush(false); err != nil {
				return err
			}
		}
		if hint != "" && !named {
			named, title, titleFrom = true, hint, len(events)
		}
		events, size = append(events, e), size+int64(len(e.Payload))
		return nil
	})
	if err == nil {
		err = flush(true)
	}
	released = err == nil
	return err
}
