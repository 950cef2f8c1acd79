package importer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// writer is the import as the owner of threads. It lives while the import writes.
type writer struct {
	owner journal.Owner
	stop  func()
}

// writing returns the owner, which begins to live with the first thread that is written.
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

// leaveThreads ends the writer's life.
func (w *work) leaveThreads(ctx context.Context) error {
	if w.writer == nil {
		return nil
	}
	w.writer.stop()
	_, err := w.Journal.Heartbeat(context.WithoutCancel(ctx), w.writer.owner, true)
	w.writer = nil
	return err
}

// maxLives bounds how often an import begins a new life for one conversation.
const maxLives = 3

// commitAlive is commit by a new owner where the old one was judged expired, as happens on a machine that is very busy.
func (w *work) commitAlive(ctx context.Context, c *conversation) (err error) {
	for range maxLives {
		err = w.commit(ctx, c)
		if reason := errdefs.ReasonOf(err); reason != journal.ReasonOwnerExpired && reason != journal.ReasonFenced {
			return err
		}
		if err := w.leaveThreads(ctx); err != nil && errdefs.ReasonOf(err) != journal.ReasonOwnerExpired {
			return err
		}
	}
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
	b := &batches{w: w, c: c, owner: owner.ID, epoch: claim.Head.Epoch}
	if _, err = w.play(ctx, c, func(e journal.Event, title string, rest bool) error { return b.add(ctx, e, title, rest) }); err == nil {
		err = b.flush(ctx, true)
	}
	released = err == nil
	return err
}

// batchBytes is about how much one batch holds. A single run may hold more, within what a journal takes.
const batchBytes = 4 << 20

// batches collects whole runs into batches. Equal logs give equal batches.
type batches struct {
	w     *work
	c     *conversation
	owner string
	epoch int64

	n    int   // batches committed
	head int64 // sequence after them
	// ready are the events of whole runs, run those of the open one.
	ready, run           []journal.Event
	readyBytes, runBytes int
	// title of the thread, and the event that it comes from.
	title, titleFrom string
	titled           bool
}

func (b *batches) add(ctx context.Context, e journal.Event, title string, rest bool) error {
	b.run, b.runBytes = append(b.run, e), b.runBytes+len(e.Payload)
	if title != "" && b.title == "" {
		b.title, b.titleFrom = title, e.ID
	}
	if !rest {
		return nil
	}
	if len(b.ready) > 0 && (len(b.ready)+len(b.run) > journal.MaxBatchEvents || b.readyBytes+b.runBytes > batchBytes) {
		if err := b.flush(ctx, false); err != nil {
			return err
		}
	}
	b.ready, b.readyBytes = append(b.ready, b.run...), b.readyBytes+b.runBytes
	b.run, b.runBytes = nil, 0
	return nil
}

// flush commits what is ready; the last batch gives the thread up.
func (b *batches) flush(ctx context.Context, last bool) error {
	if err := b.w.goOn(ctx); err != nil {
		return err
	}
	batch := journal.Batch{
		Owner: b.owner, Epoch: b.epoch, ID: fmt.Sprintf("%s/batch-%d", b.c.id(0), b.n), Expected: b.head, Events: b.ready, Release: last,
	}
	for i, e := range b.ready {
		if !b.titled && e.ID == b.titleFrom {
			b.titled, batch.TitleHint, batch.TitleFrom = true, b.title, i
		}
	}
	done, err := b.w.Journal.Commit(ctx, b.c.thread, batch)
	if err != nil {
		return err
	}
	b.head, b.ready, b.readyBytes = done.Seq, nil, 0
	b.n++
	return nil
}
