package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Store implements [files.Store].
type Store struct {
	db      DB
	now     func() time.Time
	history files.History
	poll    time.Duration // 0: nobody else writes
	ids     ids
	// kept and dropped are those of an index, whose contents are elsewhere: see [Store.KeepElsewhere].
	kept    func(content int64) bool
	dropped func(contents []int64)
	sweptTo atomic.Int64 // the last space whose history was looked at for what is too old

	mu      sync.Mutex
	closed  bool
	signals map[files.Space]chan struct{} // closed at the next change of the space

	indexes *indexes
}

var _ files.Store = (*Store)(nil)

// New returns a store over a database whose tables exist. It keeps previous revisions by the policy history.
func New(db DB, now func() time.Time, history files.History) *Store {
	s := &Store{db: db, now: now, history: history, signals: map[files.Space]chan struct{}{}, indexes: newIndexes()}
	s.hear()
	return s
}

// Capabilities implements [files.Store].
func (s *Store) Capabilities() files.Capabilities { return s.db.Capabilities() }

// Space implements [files.Store].
func (s *Store) Space(space files.Space) files.Own {
	return &tree{store: s, space: space, q: checked{s}}
}

// Locate implements [files.Store]: a database holds no plain files.
func (s *Store) Locate(files.Space) (string, bool, error) { return "", false, s.open() }

// Close implements [files.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for space, c := range s.signals {
		close(c)
		delete(s.signals, space)
	}
	s.mu.Unlock()
	return s.db.Close()
}

// Check returns the error of a store that is closed.
func (s *Store) Check() error { return s.open() }

func (s *Store) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errdefs.New(errdefs.ErrUnavailable, fsops.Domain, "", "the store is closed")
	}
	return nil
}

// checked is the read access to the database of an open store, with typed errors. Within an update it goes through the update's transaction: a second connection for each
// update would make many updates at once wait for each other's.
type checked struct{ s *Store }

// querier is where a statement of a context runs.
func (c checked) querier(ctx context.Context) Querier {
	if t, ok := ctx.Value(txKey{}).(*tx); ok && t.store == c.s {
		return t.q
	}
	return c.s.db
}

func (c checked) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if err := c.s.open(); err != nil {
		return 0, err
	}
	n, err := c.querier(ctx).Exec(ctx, statement, args...)
	return n, c.s.fault(ctx, err)
}

func (c checked) Do(ctx context.Context, statement string, args ...any) error {
	if err := c.s.open(); err != nil {
		return err
	}
	return c.s.fault(ctx, c.querier(ctx).Do(ctx, statement, args...))
}

func (c checked) Later(ctx context.Context, statement string, scan func(Row) error, args ...any) error {
	return c.Query(ctx, statement, scan, args...)
}

func (c checked) Query(ctx context.Context, statement string, scan func(Row) error, args ...any) error {
	if err := c.s.open(); err != nil {
		return err
	}
	return c.s.fault(ctx, c.querier(ctx).Query(ctx, statement, scan, args...))
}

// fault is the typed error of a driver's error. One that came of the end of ctx is ctx's.
func (s *Store) fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, typed := errors.AsType[*errdefs.Error](err); typed {
		return err
	}
	return s.db.Error(err)
}

// Wait implements [files.Store].
func (s *Store) Wait(ctx context.Context, space files.Space, after files.Cursor) error {
	if err := s.open(); err != nil {
		return err
	}
	s.mu.Lock()
	signal, ok := s.signals[space]
	if !ok {
		signal = make(chan struct{})
		s.signals[space] = signal
	}
	s.mu.Unlock()
	// A change between the caller's look and now has made no signal for us.
	head, err := s.Head(ctx, space)
	if err != nil || head != after {
		return err
	}
	var poll <-chan time.Time
	if s.poll > 0 {
		timer := time.NewTimer(s.poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-signal:
		return s.open()
	case <-poll:
		return nil
	}
}

// Head implements [files.Store].
func (s *Store) Head(ctx context.Context, space files.Space) (files.Cursor, error) {
	var c files.Cursor
	err := checked{s}.Query(ctx, `SELECT generation, seq FROM spaces WHERE name = ?1`, func(row Row) error {
		return row.Scan(&c.Generation, &c.Seq)
	}, string(space))
	return c, err
}

// Changes implements [files.Store].
func (s *Store) Changes(ctx context.Context, space files.Space, after files.Cursor, limit int) ([]files.Change, error) {
	head, err := s.Head(ctx, space)
	if err != nil {
		return nil, err
	}
	if after.Generation != "" && after.Generation != head.Generation || after.Seq > head.Seq {
		return nil, fsops.ErrCursorExpired(after.String(), head.String())
	}
	var out []files.Change
	err = checked{s}.Query(ctx, `SELECT c.seq, c.kind, c.path, c.from_path, c.revision, c.time, c.author FROM changes c
		JOIN spaces s ON s.id = c.space_id WHERE s.name = ?1 AND s.generation = ?2 AND c.seq > ?3 ORDER BY c.seq LIMIT ?4`,
		func(row Row) error {
			c := files.Change{Cursor: files.Cursor{Generation: head.Generation}}
			var path, from string
			var at int64
			if err := row.Scan(&c.Cursor.Seq, &c.Kind, &path, &from, &c.Revision, &at, &c.Author); err != nil {
				return err
			}
			c.Path, c.From, c.Time = fsops.PathOf(path), fsops.PathOf(from), time.UnixMicro(at).UTC()
			out = append(out, c)
			return nil
		}, string(space), head.Generation, after.Seq, limit)
	if err != nil {
		return nil, err
	}
	if head.Seq > after.Seq && (len(out) == 0 || out[0].Cursor.Seq != after.Seq+1) {
		oldest := head
		if len(out) > 0 {
			oldest.Seq = out[0].Cursor.Seq - 1
		}
		return nil, fsops.ErrCursorExpired(after.String(), oldest.String())
	}
	return out, nil
}

// Usage implements [files.Store].
func (s *Store) Usage(ctx context.Context, space files.Space) (files.Usage, error) {
	var u files.Usage
	err := checked{s}.Query(ctx, `SELECT bytes, files, whiteouts FROM spaces WHERE name = ?1`, func(row Row) error {
		return row.Scan(&u.Bytes, &u.Files, &u.Whiteouts)
	}, string(space))
	return u, err
}

// Spaces implements [files.Store].
func (s *Store) Spaces(ctx context.Context, prefix, after files.Space, limit int) ([]files.Space, error) {
	var out []files.Space
	err := checked{s}.Query(ctx, `SELECT name FROM spaces WHERE name >= ?1 AND name < ?2 AND name > ?3 AND files > 0 ORDER BY name LIMIT ?4`,
		func(row Row) error {
			var name string
			err := row.Scan(&name)
			out = append(out, files.Space(name))
			return err
		}, string(prefix), afterPrefix(string(prefix)), string(after), limit)
	return out, err
}

// Forget implements [files.Store].
func (s *Store) Forget(ctx context.Context, space files.Space) (int64, error) {
	if err := s.open(); err != nil {
		return 0, err
	}
	var gone int64
	var contents []int64
	err := s.db.Update(ctx, space, func(ctx context.Context, q Querier) error {
		var id int64
		gone, contents = 0, nil
		err := q.Query(ctx, `SELECT id, files FROM spaces WHERE name = ?1`, func(row Row) error { return row.Scan(&id, &gone) }, string(space))
		if err != nil || id == 0 {
			return err
		}
		if s.dropped != nil {
			if err := q.Query(ctx, `SELECT DISTINCT content_id FROM revisions WHERE space_id = ?1`, func(row Row) error {
				var content int64
				err := row.Scan(&content)
				contents = append(contents, content)
				return err
			}, id); err != nil {
				return err
			}
		}
		for _, statement := range []string{
			`DELETE FROM chunks WHERE content_id IN (SELECT id FROM contents WHERE space_id = ?1)`,
			`DELETE FROM contents WHERE space_id = ?1`, `DELETE FROM nodes WHERE space_id = ?1`, `DELETE FROM whiteouts WHERE space_id = ?1`,
			`DELETE FROM revisions WHERE space_id = ?1`, `DELETE FROM changes WHERE space_id = ?1`, `DELETE FROM effects WHERE space_id = ?1`, `DELETE FROM spaces WHERE id = ?1`,
		} {
			if err := q.Do(ctx, statement, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, s.fault(ctx, err)
	}
	if len(contents) > 0 {
		s.dropped(contents)
	}
	s.changed(space)
	return gone, nil
}

// newGeneration names a new life of a space.
func newGeneration() string {
	var random [5]byte
	rand.Read(random[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
}

// afterPrefix is the first text after all that begin with prefix.
func afterPrefix(prefix string) string {
	if prefix == "" {
		return "\U0010FFFF"
	}
	return prefix[:len(prefix)-1] + string(rune(prefix[len(prefix)-1]+1))
}
