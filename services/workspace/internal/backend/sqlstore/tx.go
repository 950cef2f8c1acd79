package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// tx is one run of an update.
type tx struct {
	tree
	id         int64
	generation string
	seq, rev   int64
	make       bool  // the space, if there is none
	before     int64 // seq when the update began
	began      int64 // rev when the update began
	usage      files.Usage
	now        time.Time
	took       []*staged       // what this run took over; given back when it fails
	made       map[string]bool // revisions of this update
	pending    pending
	seen       map[string]past // what Get has found, until the next change
	swept      []int64         // contents that are gone for good
	gone       map[string]bool // keys of the paths that it has removed
}

var _ files.Tx = (*tx)(nil)

// errNoSpace says that an update which is to change a space began while there was none: it had nothing to lock before it read, and what it read may not hold.
var errNoSpace = errors.New("the space is not there yet")

// Update implements [files.Store].
func (s *Store) Update(ctx context.Context, space files.Space, effect files.Effect, f func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	if err := s.open(); err != nil {
		return files.Updated{}, err
	}
	// Where nothing else runs meanwhile, or it takes no round trip, nothing is gained by waiting for what is in the row.
	locks := s.db.Dialect().ForUpdate != ""
	out, err := s.update(ctx, space, effect, !locks, f)
	if errors.Is(err, errNoSpace) {
		out, err = s.update(ctx, space, effect, true, f)
	}
	return out, s.fault(ctx, err)
}

// update is Update once. first: the space is made before anything else, if need be.
func (s *Store) update(ctx context.Context, space files.Space, effect files.Effect, first bool, f func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	var out files.Updated
	changed := false
	var last *tx
	err := s.db.Update(ctx, space, func(ctx context.Context, q Querier) error {
		last.giveBack() // when the database asks for another run
		t := &tx{tree: tree{store: s, space: space, q: q}, make: first, now: s.now(), pending: newPending(), made: map[string]bool{}, gone: map[string]bool{}}
		last = t
		if err := t.begin(ctx); err != nil {
			return err
		}
		repeated, err := t.recorded(ctx, effect, &out)
		if err != nil || repeated {
			return err
		}
		outcome, err := f(context.WithValue(ctx, txKey{}, t), t)
		if err != nil {
			return err
		}
		if err := t.ready(ctx); err != nil {
			return err
		}
		out = files.Updated{Outcome: outcome, Cursor: files.Cursor{Generation: t.generation, Seq: t.seq}}
		changed = t.seq != t.before
		return t.finish(ctx, effect, outcome)
	})
	if err != nil {
		last.giveBack()
		return files.Updated{}, err
	}
	if changed {
		s.changed(space)
	}
	if s.dropped != nil && len(last.swept) > 0 {
		s.dropped(last.swept)
	}
	return out, nil
}

// begin locks the row of the space, before anything is read. What is in it need not be known until something changes: see ready.
func (t *tx) begin(ctx context.Context) error {
	lock := `SELECT id, generation, seq, revisions, bytes, files, whiteouts FROM spaces WHERE name = ?1` + t.store.db.Dialect().ForUpdate
	if !t.make {
		return t.q.Later(ctx, lock, t.scanSpace, string(t.space))
	}
	if err := t.q.Query(ctx, lock, t.scanSpace, string(t.space)); err != nil || t.id != 0 {
		return err
	}
	if err := t.q.Do(ctx, `INSERT INTO spaces (name, generation) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING`, string(t.space), newGeneration()); err != nil {
		return err
	}
	return t.q.Query(ctx, lock, t.scanSpace, string(t.space))
}

func (t *tx) scanSpace(row Row) error {
	err := row.Scan(&t.id, &t.generation, &t.seq, &t.rev, &t.usage.Bytes, &t.usage.Files, &t.usage.Whiteouts)
	t.before, t.began = t.seq, t.rev
	return err
}

// ready has the row of the space known. All that needs its id or counters begins with it.
func (t *tx) ready(ctx context.Context) error {
	if t.id != 0 {
		return nil
	}
	// Nothing has been sent yet, or there was no row.
	if err := t.q.Query(ctx, `SELECT 1`, func(row Row) error {
		var one int64
		return row.Scan(&one)
	}); err != nil {
		return err
	}
	if t.id == 0 {
		return errNoSpace
	}
	return nil
}

// recorded looks for the outcome of an effect.
func (t *tx) recorded(ctx context.Context, effect files.Effect, out *files.Updated) (bool, error) {
	if effect.ID == "" {
		return false, nil
	}
	found, hash := false, ""
	record := files.Updated{Repeated: true}
	err := t.q.Query(ctx, `SELECT hash, outcome, seq FROM effects n WHERE `+ofSpace+` AND n.effect = ?2`, func(row Row) error {
		found = true
		return row.Scan(&hash, &record.Outcome, &record.Cursor.Seq)
	}, string(t.space), effect.ID)
	if err != nil || !found {
		return false, err
	}
	if hash != effect.Hash {
		return false, fsops.ErrEffectMismatch(effect.ID)
	}
	record.Cursor.Generation = t.generation
	*out = record
	return true, nil
}

// finish writes the counters and the effect, and sweeps now and then.
func (t *tx) finish(ctx context.Context, effect files.Effect, outcome []byte) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := t.q.Do(ctx, `UPDATE spaces SET seq = ?2, revisions = ?3, bytes = ?4, files = ?5, whiteouts = ?6 WHERE id = ?1`,
		t.id, t.seq, t.rev, t.usage.Bytes, t.usage.Files, t.usage.Whiteouts); err != nil {
		return err
	}
	if effect.ID != "" {
		if outcome == nil {
			outcome = []byte{}
		}
		if err := t.q.Do(ctx, `INSERT INTO effects (space_id, effect, hash, outcome, seq, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
			t.id, effect.ID, effect.Hash, outcome, t.seq, t.now.UnixMicro()); err != nil {
			return err
		}
	}
	if t.rev/sweepEvery != t.began/sweepEvery {
		return t.sweep(ctx)
	}
	return nil
}

// giveBack leaves staged content to whoever staged it: the run did not count.
func (t *tx) giveBack() {
	if t == nil {
		return
	}
	for _, s := range t.took {
		s.mu.Lock()
		s.taken = false
		s.mu.Unlock()
	}
}

// Put implements [files.Tx].
func (t *tx) Put(ctx context.Context, f files.File) (files.Node, error) {
	if err := t.fits(f.Path); err != nil {
		return files.Node{}, err
	}
	old, err := t.past(ctx, f.Path)
	if err != nil {
		return files.Node{}, err
	}
	content, err := t.takeOver(ctx, f.Path, f.Content)
	if err != nil {
		return files.Node{}, err
	}
	n := files.Node{
		Path: f.Path, Kind: files.KindFile, Size: f.Content.Size(), SHA256: f.Content.SHA256(), Mode: f.Mode, Author: f.Author,
		ModTime: f.ModTime, Revision: t.newRevision(), Ref: strconv.FormatInt(content, 10),
	}
	if n.ModTime.IsZero() {
		n.ModTime = t.now
	}
	n.ModTime = n.ModTime.UTC().Truncate(time.Microsecond)
	if err := t.replace(ctx, old, n); err != nil {
		return files.Node{}, err
	}
	return n, t.write(ctx, n, content)
}

// replace makes room for a file of new content: what the path holds is retired, or its directories are made.
func (t *tx) replace(ctx context.Context, old past, n files.Node) error {
	t.usage.Bytes += n.Size - old.Size
	if old.Exists() {
		return t.retire(ctx, old, false)
	}
	t.usage.Files++
	if err := t.comesBack(ctx, n.Path); err != nil {
		return err
	}
	return t.addDirs(ctx, n.Path)
}

// write puts the row of a file into place.
func (t *tx) write(ctx context.Context, n files.Node, content int64) error {
	t.seen, t.made[n.Revision] = nil, true
	parent := n.Path.Parent().Key()
	err := t.q.Do(ctx, `INSERT INTO nodes (space_id, key, path, parent, parent_hash, kind, size, mtime, revision, sha256, mode, author, content_id)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
		ON CONFLICT (space_id, key) DO UPDATE SET path = excluded.path, size = excluded.size, mtime = excluded.mtime, revision = excluded.revision,
		sha256 = excluded.sha256, mode = excluded.mode, author = excluded.author, content_id = excluded.content_id`,
		t.id, n.Path.Key(), n.Path.String(), parent, hashOf(parent), int64(files.KindFile), n.Size, n.ModTime.UnixMicro(), n.Revision, n.SHA256,
		int64(n.Mode), n.Author, content)
	return err
}

// addDirs makes the rows of the directories above a path, from the nearest up to the first that exists.
func (t *tx) addDirs(ctx context.Context, p fsops.Path) error {
	for dir := p.Parent(); !dir.IsRoot() && !t.pending.made[dir.Key()]; dir = dir.Parent() {
		parent := dir.Parent().Key()
		n, err := t.q.Exec(ctx, `INSERT INTO nodes (space_id, key, path, parent, parent_hash, kind, mtime, mode)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (space_id, key) DO NOTHING`,
			t.id, dir.Key(), dir.String(), parent, hashOf(parent), int64(files.KindDir), t.now.UnixMicro(), int64(0o755))
		t.pending.made[dir.Key()] = true
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// takeOver makes staged content that of the next revision of a file, and returns its id.
func (t *tx) takeOver(ctx context.Context, p fsops.Path, from files.Staged) (int64, error) {
	s, ok := from.(*staged)
	if !ok || s.store != t.store {
		return 0, errors.New("content was staged in another store")
	}
	s.mu.Lock()
	taken := s.taken
	s.taken = true
	s.mu.Unlock()
	if taken {
		return 0, errors.New("content was taken over already")
	}
	t.took = append(t.took, s)
	if s.id != 0 {
		// Not later: whoever discards the content meanwhile waits for the row from here on, or has removed it before.
		n, err := t.q.Exec(ctx, `UPDATE contents SET space_id = ?2, loose_since = 0, hash_state = ?3, key = ?4, rev = ?5 WHERE id = ?1 AND loose_since > 0`,
			s.id, t.id, s.state, p.Key(), t.rev+1)
		if err == nil && n == 0 {
			err = errdefs.New(errdefs.ErrAborted, fsops.Domain, fsops.ReasonRevisionConflict, "the content that was sent waited too long and was removed; send it again")
		}
		return s.id, err
	}
	id, err := t.newIndexedContent(ctx, p, s)
	if err == nil && len(s.data) > 0 {
		err = t.q.Do(ctx, `INSERT INTO chunks (content_id, start, data) VALUES (?1, 0, ?2)`, id, s.data)
	}
	return id, err
}

// loosen leaves the content of a replaced or removed file to the sweep.
func (t *tx) loosen(ctx context.Context, id int64) error {
	return t.q.Do(ctx, `UPDATE contents SET loose_since = ?2 WHERE id = ?1`, id, t.now.UnixMicro())
}

func (t *tx) newRevision() string {
	t.seen = nil
	t.rev++
	return t.generation + strconv.FormatInt(t.rev, 10)
}

func contentID(n files.Node) int64 {
	id, _ := strconv.ParseInt(n.Ref, 10, 64)
	return id
}
