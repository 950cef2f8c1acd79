package journalpostgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// channel on which processes with a journal in the same database tell of their changes.
const channel = "gantry_journal"

// heard wakes those who wait for what another process has changed.
func (d *database) heard(words []string) {
	notes := make([]journalsql.Note, 0, len(words))
	for _, word := range words {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			notes = append(notes, journalsql.Note(n))
		}
	}
	d.notify.Send(notes)
}

// changed wakes the waiters here, and tells the other processes.
func (d *database) changed(notes []journalsql.Note) {
	d.notify.Send(notes)
	words := make([]string, len(notes))
	for i, n := range notes {
		words[i] = strconv.FormatInt(int64(n), 10)
	}
	d.told.Tell(words...)
}

// watchOthers looks for changes of other processes while somebody waits, in case that nobody told of them.
func (d *database) watchOthers() {
	tick := time.NewTicker(journal.Recheck)
	defer tick.Stop()
	seen := make(map[int64]int64)
	for {
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		if d.notify.Idle() {
			clear(seen)
			continue
		}
		waiting := d.notify.Waiting()
		heads, err := d.look(waiting)
		if err != nil {
			// No reason to be still: the waiters look themselves and report it.
			d.notify.All()
			continue
		}
		// Who waits for due threads always looks: what became due by time alone changed nothing.
		notes := []journalsql.Note{journalsql.ClaimNote}
		for _, id := range waiting {
			if seq, there := heads[id]; !there || seen[id] != seq {
				notes = append(notes, journalsql.Note(id))
			}
		}
		seen = heads
		d.notify.Send(notes)
	}
}

// look reads the heads of the threads that somebody waits for. It also shortens lives that were given before the clock was set back to what they may be now.
func (d *database) look(threads []int64) (map[int64]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), journal.Recheck)
	defer cancel()
	var b pgx.Batch
	heads := make(map[int64]int64)
	b.Queue(`UPDATE owners SET expire = clock($1) + $2 WHERE state = 0 AND expire > clock($1) + $2 + $3`, d.now(), int64(journal.OwnerLife), int64(time.Second))
	b.Queue(`SELECT id, seq FROM threads WHERE id = ANY ($1)`, threads).Query(func(rows pgx.Rows) error {
		var id, seq int64
		_, err := pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
			heads[id] = seq
			return nil
		})
		return err
	})
	return heads, d.pool.SendBatch(ctx, &b).Close()
}
