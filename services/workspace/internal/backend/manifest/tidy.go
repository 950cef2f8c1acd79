package manifest

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// checkpointEvery is after how many entries a checkpoint is written; the states that are large wait for some more.
	checkpointEvery = 256
	// largeState is the size of a state from which on it is written half as often, and so on for each doubling, to a quarter.
	largeState = 8 << 20
	// looseLife is how long replaced content stays for those who read it. The clocks of replicas may differ by a few minutes.
	looseLife = time.Hour + 5*time.Minute
	// entryLife is how long entries and checkpoints stay after a newer checkpoint has covered them.
	entryLife = time.Hour
	// orphanLife is how long chunks stay that no entry speaks of: an update may be about to do it.
	orphanLife = 24 * time.Hour
	// tendEvery is how often a space is tidied up at most, unless it needs a checkpoint.
	tendEvery = 30 * time.Minute
	// sweepContents bounds the replaced contents that are removed at once, and pruneEntries the entries.
	sweepContents = 5000
	pruneEntries  = 4096
	// tidyTime bounds the work behind one update.
	tidyTime = 5 * time.Minute
)

// tend tidies up behind an update, if it is time: it writes a checkpoint, and removes what nobody needs any more.
func (l *live) tend(st *state) {
	now := l.store.now()
	if !st.needsCheckpoint() && !st.hasGarbage(now) {
		return
	}
	l.mu.Lock()
	busy := l.tending
	l.tending = true
	l.mu.Unlock()
	if busy {
		return
	}
	_, release, err := l.store.hold(l.space)
	if err != nil {
		return
	}
	go func() {
		defer release()
		defer func() {
			l.mu.Lock()
			l.tending = false
			l.mu.Unlock()
		}()
		select {
		case l.store.tend <- struct{}{}:
			defer func() { <-l.store.tend }()
		case <-l.store.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(l.store.ctx, tidyTime)
		defer cancel()
		if err := l.tidy(ctx); err != nil && l.store.ctx.Err() == nil {
			l.store.cfg.Log.WarnContext(ctx, "a bucket was not tidied up; the next change of it tries again", "error", err)
		}
	}()
}

func (s *state) needsCheckpoint() bool {
	every := int64(checkpointEvery)
	for size := s.size(); size > largeState && every < 4*checkpointEvery; size /= 2 {
		every *= 2
	}
	return s.at.Number-s.packed() >= every
}

// hasGarbage says whether it is time to look for what is not needed any more.
func (s *state) hasGarbage(now time.Time) bool {
	if now.Sub(s.tended) < tendEvery {
		return false
	}
	oldest, some := s.loose.Min()
	return some && now.Sub(oldest.since) > looseLife || s.at.Number > s.base+1 && now.Sub(s.orphans) > orphanLife
}

// tidy does the work, then says in an entry what it did.
func (l *live) tidy(ctx context.Context) error {
	st, err := l.look(ctx)
	if err != nil {
		return err
	}
	var done []op
	if st.needsCheckpoint() {
		o, err := l.makePack(ctx, st, st.at.Number)
		if err == nil {
			err = l.store.driver.PutCheckpoint(ctx, l.space, st.at.Number, st.encode())
		}
		if err != nil {
			return err
		}
		done = append(done, o)
	}
	now := l.store.now()
	for _, step := range []func(context.Context, *state, time.Time) (op, error){l.sweepLoose, l.prune, l.sweepOrphans, l.agePast, l.unpackOld} {
		o, err := step(ctx, st, now)
		if err != nil {
			return err
		}
		if o.kind != 0 {
			done = append(done, o)
		}
	}
	if len(done) == 0 {
		return nil
	}
	_, err = l.update(ctx, false, func(p *plan) (files.Updated, error) {
		for _, o := range done {
			if p.batch.base.base != st.base || o.kind == opPacked && o.number <= p.state.packed() || o.kind == opUnpacked && !samePacks(p.state, st) {
				continue // somebody else has done it, or all is gone
			}
			if err := p.do(o); err != nil {
				return files.Updated{}, err
			}
		}
		return files.Updated{}, nil
	})
	return err
}

func samePacks(a, b *state) bool {
	return len(a.packs) > 0 && len(b.packs) > 0 && a.packs[0].through == b.packs[0].through
}

// sweepLoose removes contents that were replaced long enough ago.
func (l *live) sweepLoose(ctx context.Context, st *state, now time.Time) (op, error) {
	var old []piece
	end, most := int64(0), max(sweepContents, st.loose.Len()/2)
	st.loose.Ascend(func(c *loose) bool {
		if now.Sub(c.since) <= looseLife || most == 0 {
			return false
		}
		old = append(old, c.pieces...)
		end = c.index + 1
		most--
		return true
	})
	if len(old) == 0 {
		return op{}, nil
	}
	used := st.used()
	var gone []string
	for _, p := range old {
		if !used[p] {
			gone = append(gone, p.name())
		}
	}
	return op{kind: opSwept, number: end}, l.store.driver.Delete(ctx, l.space, gone)
}

// prune removes entries and checkpoints that were covered by a newer checkpoint long enough ago.
func (l *live) prune(ctx context.Context, st *state, _ time.Time) (op, error) {
	marks, err := l.store.driver.Checkpoints(ctx, l.space)
	if err != nil || len(marks) < 2 {
		return op{}, err
	}
	newest := marks[len(marks)-1]
	var safe int64
	for _, m := range marks[:len(marks)-1] {
		if newest.Time.Sub(m.Time) >= entryLife {
			safe = m.Number
		}
	}
	last := min(safe, st.packed(), st.pruned+pruneEntries)
	if last <= st.pruned {
		return op{}, nil
	}
	return op{kind: opPruned, number: last}, l.store.driver.Prune(ctx, l.space, st.pruned+1, last, last)
}

// sweepOrphans looks for chunks that no entry speaks of, once a day.
func (l *live) sweepOrphans(ctx context.Context, st *state, now time.Time) (op, error) {
	if now.Sub(st.orphans) <= orphanLife {
		return op{}, nil
	}
	used := map[string]bool{}
	for p := range st.used() {
		used[p.name()] = true
	}
	st.loose.Ascend(func(c *loose) bool {
		for _, p := range c.pieces {
			used[p.name()] = true
		}
		return true
	})
	return op{kind: opOrphansSwept, when: now}, l.store.driver.Sweep(ctx, l.space, now.Add(-orphanLife), func(name string) bool { return !used[name] })
}

// agePast drops the previous revisions that are too old, when orphans are looked for too.
func (l *live) agePast(_ context.Context, st *state, now time.Time) (op, error) {
	before, aged := l.store.cfg.History.Before(now)
	if !aged || now.Sub(st.orphans) <= orphanLife {
		return op{}, nil
	}
	found := false
	st.past.Ascend(func(r *revision) bool {
		found = r.Replaced.Before(before)
		return !found
	})
	if !found {
		return op{}, nil
	}
	return op{kind: opAged, when: before}, nil
}

// unpackOld drops packs that neither Watch nor a repeated effect may ask for.
func (l *live) unpackOld(_ context.Context, st *state, now time.Time) (op, error) {
	var number int64
	for _, pk := range st.packs {
		if pk.last > st.seq-keptChanges || now.Sub(pk.time) < effect.RecordLife {
			break
		}
		number++
	}
	if number == 0 || int(number) == len(st.packs) {
		return op{}, nil
	}
	return op{kind: opUnpacked, number: number}, nil
}
