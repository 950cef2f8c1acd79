package journalpostgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/pgnotify"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Store is a [journal.Store] in a database.
type Store struct {
	*journalsql.Store
	db *database
}

var _ journal.Store = (*Store)(nil)

// database implements [journalsql.DB].
type database struct {
	pool *pgxpool.Pool
	// commits has the connections of the committers.
	commits *pgxpool.Pool
	texts   *texts
	now     func() int64
	notify  *journalsql.Notifier
	told    *pgnotify.Channel
	queue   *queue
	quit    chan struct{}
	work    sync.WaitGroup
	log     *slog.Logger
}

var (
	_ journalsql.DB      = (*database)(nil)
	_ journalsql.Settler = (*database)(nil)
)

// Open connects to the journal, brings its tables up to date, and removes what an interrupted Delete left.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		// The error of the parser quotes the DSN, and with it the password.
		return nil, errDSN
	}
	pc.MaxConns = cfg.MaxConns
	pc.ConnConfig.RuntimeParams["search_path"] = "journal"
	// What was acknowledged is durable, whatever the server's default is.
	pc.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	// The rules lock what they rely on; under a stricter default they would be repeated for nothing.
	pc.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, failed(ctx, err)
	}
	d := &database{
		pool: pool, texts: new(texts), now: cfg.now, notify: journalsql.NewNotifier(), queue: newQueue(), quit: make(chan struct{}), log: cfg.Log,
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, failed(ctx, err)
	}
	if d.commits, err = commitPool(ctx, pc); err != nil {
		pool.Close()
		return nil, failed(ctx, err)
	}
	d.told = pgnotify.Open(pool, channel, d.heard, d.notify.All, d.log)
	d.work.Go(d.watchOthers)
	for range committers {
		d.work.Go(d.commitGroups)
	}
	s, err := journalsql.New(ctx, d, d.notify, cfg.Weight)
	if err != nil {
		return nil, errOf(d.Close(), failed(ctx, err))
	}
	return &Store{Store: s, db: d}, nil
}

// errOf is err; what went wrong after it tells nobody more.
func errOf(_, err error) error { return err }

// Close implements [journalsql.DB].
func (d *database) Close() error {
	d.queue.close()
	close(d.quit)
	d.work.Wait()
	d.told.Close()
	d.commits.Close()
	d.pool.Close()
	return nil
}

// open says whether the store is.
func (d *database) open() error {
	select {
	case <-d.quit:
		return journalsql.ErrClosed
	default:
		return nil
	}
}

// Read implements [journalsql.DB].
func (d *database) Read(ctx context.Context, f func(*journalsql.View) error) error {
	return d.transact(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", f)
}

// Write implements [journalsql.DB].
func (d *database) Write(ctx context.Context, f func(*journalsql.Tx) error) error {
	var notes []journalsql.Note
	err := d.transact(ctx, "BEGIN", func(v *journalsql.View) error {
		t := &journalsql.Tx{View: *v}
		err := f(t)
		notes = t.Notes
		return err
	})
	if err == nil {
		d.changed(notes)
	}
	return err
}

// transact runs f in a transaction, again when the database asks for it.
func (d *database) transact(ctx context.Context, begin string, f func(*journalsql.View) error) error {
	if err := d.open(); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := d.once(ctx, begin, f)
		if err == nil || try == maxTries || !repeatable(err) {
			return failed(ctx, err)
		}
	}
}

// once runs f in a transaction. The first statement brings the time along, the last ones travel with the commit.
func (d *database) once(ctx context.Context, begin string, f func(*journalsql.View) error) (err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	s := &session{ctx: ctx, conn: conn.Conn(), texts: d.texts}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an operation panicked: %v", p)
		}
		if err != nil && conn.Conn().PgConn().TxStatus() != 'I' {
			// A connection that stays in a transaction is not used again. One that was cut off has been rolled back by the server.
			d.rollback(conn.Conn())
		}
	}()
	now, err := s.begin(begin, d.now())
	if err != nil {
		return err
	}
	if err := f(&journalsql.View{Session: s, Dialect: &dialect, Now: time.Unix(0, now).UTC()}); err != nil {
		return err
	}
	return s.commit()
}

// rollback ends a transaction without waiting for long: it must also end one whose caller has gone.
func (d *database) rollback(conn *pgx.Conn) {
	if conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		d.log.Warn("journal: a transaction was not rolled back, its connection is given up", "error", err)
	}
}

// Scrub implements [journalsql.DB]. A server keeps removed rows until it vacuums, and its log until that is recycled; both are its administrator's.
func (d *database) Scrub(context.Context) {}

// Settle implements [journalsql.Settler].
func (d *database) Settle(ctx context.Context, user string) error {
	if err := d.open(); err != nil {
		return err
	}
	var any bool
	err := d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM threads WHERE user_key = $1 AND unplaced) OR EXISTS (SELECT 1 FROM graves WHERE user_key = $1 AND unplaced)`,
		user).Scan(&any)
	if err != nil || !any {
		return failed(ctx, err)
	}
	return d.Write(ctx, func(t *journalsql.Tx) error { return settle(t, user) })
}

// settle numbers the changes of a user that have no place, in the order in which they were made, one reader after another.
func settle(t *journalsql.Tx, user string) error {
	for _, query := range []string{
		`SELECT pg_advisory_xact_lock(hashtextextended(?, 1734438516))`,
		`SELECT 1 FROM threads WHERE user_key = ? AND unplaced ORDER BY id FOR UPDATE`,
		`WITH fresh AS (SELECT id, alive, nextval('places') AS place FROM (
   SELECT id, TRUE AS alive, change FROM threads WHERE user_key = ?1 AND unplaced
   UNION ALL SELECT id, FALSE, change FROM graves WHERE user_key = ?1 AND unplaced ORDER BY change) f),
  living AS (UPDATE threads t SET place = f.place, unplaced = FALSE FROM fresh f WHERE f.alive AND t.id = f.id)
 UPDATE graves g SET place = f.place, unplaced = FALSE FROM fresh f WHERE NOT f.alive AND g.id = f.id`,
	} {
		if err := t.Do(query, user); err != nil {
			return err
		}
	}
	return nil
}
