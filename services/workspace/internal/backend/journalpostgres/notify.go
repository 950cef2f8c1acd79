package journalpostgres

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	channel = "gantry_journal"
	// noteBytes keeps a notification below PostgreSQL's 8000 bytes.
	noteBytes = 7900
)

// teller collects what the other processes are to be told.
type teller struct {
	// name marks what this process tells, which it knows already.
	name string

	mu    sync.Mutex
	notes map[journalsql.Note]bool
	// signal has room for one: there is something to tell.
	signal chan struct{}
}

func newTeller() *teller {
	return &teller{name: rand.Text(), notes: make(map[journalsql.Note]bool), signal: make(chan struct{}, 1)}
}

func (t *teller) add(notes []journalsql.Note) {
	if len(notes) == 0 {
		return
	}
	t.mu.Lock()
	for _, n := range notes {
		t.notes[n] = true
	}
	t.mu.Unlock()
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// take returns the notifications to send.
func (t *teller) take() []string {
	t.mu.Lock()
	notes := t.notes
	t.notes = make(map[journalsql.Note]bool)
	t.mu.Unlock()
	var out []string
	var text strings.Builder
	for n := range notes {
		if text.Len() > noteBytes {
			out = append(out, text.String())
			text.Reset()
		}
		if text.Len() == 0 {
			text.WriteString(t.name)
		}
		text.WriteByte(' ')
		text.WriteString(strconv.FormatInt(int64(n), 10))
	}
	return append(out, text.String())
}

// read undoes take; nothing when this process told it.
func (t *teller) read(text string) []journalsql.Note {
	name, rest, _ := strings.Cut(text, " ")
	if name == t.name {
		return nil
	}
	var notes []journalsql.Note
	for word := range strings.FieldsSeq(rest) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			notes = append(notes, journalsql.Note(n))
		}
	}
	return notes
}

// tell tells the other processes what changed. What is lost with this process or its connection they find by looking.
func (d *database) tell() {
	pause := time.NewTicker(tellEvery)
	defer pause.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-d.told.signal:
		}
		d.send(d.told.take())
		select {
		case <-d.quit:
			return
		case <-pause.C:
		}
	}
}

func (d *database) send(texts []string) {
	ctx, cancel := context.WithTimeout(context.Background(), journal.Recheck)
	defer cancel()
	if _, err := d.pool.Exec(ctx, `SELECT pg_notify($1, t) FROM unnest($2::TEXT[]) t`, channel, texts); err != nil {
		d.log.Debug("journal: others were not told of a change and find it themselves", "error", err)
	}
}

// listen keeps one connection on which the other processes tell of their changes.
func (d *database) listen(cfg *pgx.ConnConfig) {
	ctx, cancel := context.WithCancel(context.Background())
	d.work.Go(func() {
		<-d.quit
		cancel()
	})
	wait := firstPause
	for {
		begun := time.Now()
		err := d.hear(ctx, cfg)
		if ctx.Err() != nil {
			return
		}
		d.log.Warn("journal: the connection that hears of others' changes is lost and made again", "error", err)
		if wait = min(2*wait, connectPause); time.Since(begun) > connectPause {
			wait = firstPause // it was good for a while: a server that restarts is soon back
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// hear listens until the connection fails.
func (d *database) hear(ctx context.Context, cfg *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	// Something may have happened while nobody listened.
	d.notify.All()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		d.notify.Send(d.told.read(n.Payload))
	}
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
