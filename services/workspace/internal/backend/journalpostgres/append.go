package journalpostgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// appendCall makes a set of commits that only append events, in one statement: of the server's time for a small statement most goes into starting it. For a commit that is not as it must be for
// the function commit, it changes nothing and returns no row. A batch that another transaction makes at the same time fails the statement, and the rules tell it from a repeat.
//
// Threads are looked up row by row (LATERAL) and changed by a list (ANY), which leaves the planner no way but their indexes, however few they were when it made its plan.
const appendCall = `WITH c AS MATERIALIZED (
  SELECT c.n, c.batch, c.hash, c.events, c.checkpoint, c.need, h.id, h.log, h.seq, h.sum, h.mail_count,
    CASE WHEN k.now < h.updated AND h.updated - k.now <= 1000000000 THEN h.updated ELSE k.now END AS made
  FROM (SELECT clock($1) AS now) k
  CROSS JOIN unnest($2::TEXT[], $3::TEXT[], $4::BIGINT[], $5::TEXT[], $6::BYTEA[], $7::BIGINT[], $8::BIGINT[], $9::BIGINT[], $10::BIGINT[])
    WITH ORDINALITY AS c (key, owner, epoch, batch, hash, expected, events, checkpoint, need, n)
  CROSS JOIN LATERAL (
    SELECT h.id, h.log, h.seq, h.sum, h.mail_count, h.updated FROM threads h JOIN owners o ON o.id = h.owner
    WHERE h.key = c.key AND h.epoch = c.epoch AND o.name = c.owner AND o.state = 0 AND (c.expected < 0 OR c.expected = h.seq) AND h.seq + c.events <= 4294967295
      AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.thread = h.id AND b.batch = c.batch)
    FOR UPDATE OF h SKIP LOCKED
  ) h
), e AS MATERIALIZED (
  SELECT c.id AS thread, (c.log << 32) | (c.seq + e.i) AS id, c.made, e.schema, e.event, e.type, e.run, e.turn, e.step, e.required, e.hash, e.payload,
    chain(c.sum, int8send(c.seq + e.i) || int8send(c.made) || e.head) OVER (PARTITION BY c.n ORDER BY e.i ROWS UNBOUNDED PRECEDING) AS sum, e.i = c.events AS last
  FROM c JOIN unnest($11::BIGINT[], $12::BIGINT[], $13::BYTEA[], $14::BIGINT[], $15::TEXT[], $16::TEXT[], $17::TEXT[], $18::TEXT[], $19::INTEGER[], $20::SMALLINT[],
    $21::BYTEA[], $22::BYTEA[]) AS e (n, i, head, schema, event, type, run, turn, step, required, hash, payload) ON e.n = c.n
), made_batches AS (
  INSERT INTO batches (thread, batch, hash, seq, time, released) SELECT id, batch, hash, seq + events, made, 0 FROM c
), made_events AS (
  INSERT INTO events (id, time, schema, event, type, run, turn, step, required, batch_end, redacted, reason, in_blob, size, hash, sum, payload)
  SELECT id, made, schema, event, type, run, turn, step, required, last::INTEGER, 0, '', 0, length(payload), hash, sum, payload FROM e
), made_heads AS (
  UPDATE threads h SET seq = c.seq + c.events, sum = e.sum, checkpoint = CASE WHEN c.checkpoint > 0 THEN c.seq + c.checkpoint ELSE h.checkpoint END,
    need_schema = greatest(h.need_schema, c.need), updated = c.made, change = nextval('journal.changes'), unplaced = TRUE
  FROM c JOIN e ON e.thread = c.id AND e.last WHERE h.id = ANY (ARRAY[c.id])
)
SELECT n, made, id, seq + events, mail_count FROM c`

// appendOneCall is appendCall for one commit of one event, which starts sooner.
const appendOneCall = `WITH c AS MATERIALIZED (
  SELECT t.*, sha256(t.sum || int8send(t.seq) || int8send(t.made) || $10::BYTEA) AS next FROM (
    SELECT h.id, h.log, h.seq + 1 AS seq, h.sum, h.mail_count, CASE WHEN k.now < h.updated AND h.updated - k.now <= 1000000000 THEN h.updated ELSE k.now END AS made
    FROM (SELECT clock($1) AS now) k CROSS JOIN (
      SELECT h.id, h.log, h.seq, h.sum, h.mail_count, h.updated FROM threads h JOIN owners o ON o.id = h.owner
      WHERE h.key = $2 AND h.epoch = $4 AND o.name = $3 AND o.state = 0 AND ($7::BIGINT < 0 OR $7 = h.seq) AND h.seq < 4294967295
        AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.thread = h.id AND b.batch = $5)
      FOR UPDATE OF h SKIP LOCKED
    ) h
  ) t
), made_batches AS (
  INSERT INTO batches (thread, batch, hash, seq, time, released) SELECT id, $5, $6, seq, made, 0 FROM c
), made_events AS (
  INSERT INTO events (id, time, schema, event, type, run, turn, step, required, batch_end, redacted, reason, in_blob, size, hash, sum, payload)
  SELECT (log << 32) | seq, made, $11, $12, $13, $14, $15, $16, $17, 1, 0, '', 0, length($19::BYTEA), $18, next, $19 FROM c
), made_heads AS (
  UPDATE threads h SET seq = c.seq, sum = c.next, checkpoint = CASE WHEN $8::BIGINT > 0 THEN c.seq ELSE h.checkpoint END,
    need_schema = greatest(h.need_schema, $9), updated = c.made, change = nextval('journal.changes'), unplaced = TRUE
  FROM c WHERE h.id = ANY (ARRAY[c.id])
)
SELECT 1::BIGINT, made, id, seq, mail_count FROM c`

// appends says whether the commit does no more than append events.
func appends(b *journal.Batch) bool {
	return len(b.Events) > 0 && len(b.Consume) == 0 && b.Run == (journal.Run{}) && !b.Release && b.Title == "" && b.TitleHint == ""
}

// readSet takes the answers of appendCall.
func readSet(set []*commit) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var n, made, thread, head, mail int64
		_, err := pgx.ForEachRow(rows, []any{&n, &made, &thread, &head, &mail}, func() error {
			c := set[n-1]
			c.done, c.made, c.thread, c.head, c.openMail, c.due = true, made, thread, head, mail, never
			return nil
		})
		return err
	}
}

// separate parts a group into commits that only append, no two of them to one thread, and the others, which are made after them in order.
func separate(group []*commit) (set, others []*commit) {
	seen := make(map[string]bool, len(group))
	for _, c := range group {
		if !seen[c.key] && appends(c.batch) {
			set = append(set, c)
		} else {
			others = append(others, c)
		}
		seen[c.key] = true
	}
	return set, others
}

// send makes the commits in one round trip and one transaction.
func send(ctx context.Context, conn runner, now int64, group []*commit) error {
	set, others := separate(group)
	for _, c := range set {
		c.done = false
	}
	var b pgx.Batch
	switch {
	case len(set) == 1 && len(set[0].batch.Events) == 1:
		b.Queue(appendOneCall, appendOneArgs(now, set[0])...).Query(readSet(set))
	case len(set) > 0:
		b.Queue(appendCall, appendArgs(now, set)...).Query(readSet(set))
	}
	for _, c := range others {
		b.Queue(commitCall, commitArgs(now, c.key, c.batch, c.hash)...).QueryRow(c.read)
	}
	// Without BEGIN what is sent together is one transaction.
	return conn.SendBatch(ctx, &b).Close()
}
