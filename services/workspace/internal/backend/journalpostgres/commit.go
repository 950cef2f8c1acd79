package journalpostgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Commit implements [journal.Writer].
func (s *Store) Commit(ctx context.Context, key identity.Thread, b journal.Batch) (journal.Committed, error) {
	if err := b.Validate(); err != nil {
		return journal.Committed{}, err
	}
	hash := b.Fingerprint()
	if plain(&b) {
		out, done, err := s.db.commitPlain(ctx, key, &b, hash)
		if err != nil || done {
			return out, err
		}
	}
	return s.CommitValid(ctx, key, b, hash)
}

// plain says whether the function of the database may make the commit.
func plain(b *journal.Batch) bool {
	for i := range b.Events {
		// A checkpoint is rare, and whether it may be kept is for the rules to say.
		if len(b.Events[i].Payload) > journal.InlinePayloadBytes || len(b.Events[i].Blobs) > 0 || b.Events[i].Type == journal.TypeCheckpoint {
			return false
		}
	}
	return len(b.Mail) == 0
}

// commitPlain makes the commit in one round trip, which it shares with others that wait. Not done: nothing was changed, and the rules must say why.
func (d *database) commitPlain(ctx context.Context, key identity.Thread, b *journal.Batch, hash journal.Sum) (journal.Committed, bool, error) {
	c := &commit{key: key.Key(), batch: b, hash: hash}
	if err := d.queue.do(ctx, c); err != nil && !repeatable(err) {
		return journal.Committed{}, false, failed(ctx, err)
	}
	if c.err != nil || !c.done {
		return journal.Committed{}, false, nil
	}
	out := journal.Committed{Seq: c.head, Time: time.Unix(0, c.made).UTC()}
	var err error
	if c.openMail > 0 {
		v := journalsql.View{Session: &session{ctx: ctx, conn: d.pool, texts: d.texts}, Dialect: &dialect, Now: out.Time}
		out.Mail, err = v.DueMail(c.thread)
	}
	return out, true, failed(ctx, err)
}

const commitCall = `SELECT done, coalesce(made, 0), coalesce(thread, 0), coalesce(head, 0), coalesce(open_mail, 0), coalesce(due_at, 0)
 FROM commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)`

// commitArgs are the arguments of commitCall.
func commitArgs(now int64, key string, b *journal.Batch, hash journal.Sum) []any {
	n := len(b.Events)
	var (
		heads, hashes, payloads = make([][]byte, n), make([][]byte, n), make([][]byte, n)
		schemas, steps          = make([]int64, n), make([]int32, n)
		required                = make([]int16, n)
		text                    = make([]string, 4*n)
	)
	ids, types, runs, turns := text[:n:n], text[n:2*n:2*n], text[2*n:3*n:3*n], text[3*n:]
	for i := range b.Events {
		e := &b.Events[i]
		heads[i], hashes[i], payloads[i] = e.ChainHead(), e.PayloadHash[:], e.Payload
		if payloads[i] == nil {
			payloads[i] = []byte{}
		}
		schemas[i], steps[i] = int64(e.Schema), e.Step
		ids[i], types[i], runs[i], turns[i] = e.ID, e.Type, e.RunID, e.TurnID
		if e.Required {
			required[i] = 1
		}
	}
	consume := b.Consume
	if consume == nil {
		consume = []string{}
	}
	return []any{
		now, key, b.Owner, b.Epoch, b.ID, hash[:], b.Expected, heads, schemas, ids, types, runs, turns, steps, required, hashes, payloads,
		consume, b.Run.ID, int16(b.Run.State), b.Run.TaskID, b.Release, b.Title, b.TitleHint, int64(b.TitleFrom),
	}
}

// commitGroups makes waiting commits until the store closes.
func (d *database) commitGroups() {
	for {
		group, more := d.queue.take()
		if !more {
			return
		}
		d.commitGroup(group)
	}
}

// commitGroup makes commits in one transaction and one round trip. When the database fails one of them, all are undone and each gets a transaction of its own.
func (d *database) commitGroup(group []*commit) {
	ctx, cancel := context.WithTimeout(context.Background(), groupTime)
	err := d.sendGroup(ctx, group)
	late := ctx.Err() != nil // to be asked before cancel makes it so
	cancel()
	if err != nil && len(group) > 1 && !lost(err) && !late {
		for _, c := range group {
			d.commitGroup([]*commit{c})
		}
		return
	}
	var notes []journalsql.Note
	for _, c := range group {
		c.err = err
		if err == nil && c.done {
			notes = append(notes, journalsql.Note(c.thread))
			if c.due < never {
				notes = append(notes, journalsql.ClaimNote)
			}
		}
		close(c.answered)
	}
	d.changed(notes)
}

func (d *database) sendGroup(ctx context.Context, group []*commit) error {
	conn, err := d.commits.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return send(ctx, conn, d.now(), group)
}

// commitPool has a connection for each committer. Their statements are planned once, and by the indexes even while the tables are small: they grow sooner than the server looks at them again.
func commitPool(ctx context.Context, of *pgxpool.Config) (*pgxpool.Pool, error) {
	pc := of.Copy()
	pc.MinConns, pc.MaxConns = 0, committers
	pc.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	pc.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	return pgxpool.NewWithConfig(ctx, pc)
}
