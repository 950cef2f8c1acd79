package sqlstore

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

// maxIndexBytes bounds the memory of all indexes of a store: about 200,000 files of 10 KB. The spaces searched least recently go first, and are read anew by their next search.
const maxIndexBytes = 256 << 20

// indexes keeps the indexes of spaces in memory.
type indexes struct {
	mu    sync.Mutex
	of    map[files.Space]*list.Element // of *spaceIndex
	order *list.List                    // the one used last in front
	bytes int64
}

// spaceIndex is the index of one space, as of a revision. Its lock is a channel, so that who waits for it can give up.
type spaceIndex struct {
	space      files.Space
	lock       chan struct{}
	generation string
	rev        int64
	index      *trigram.Index
	bytes      int64 // as counted among all
	tooMany    int64 // files whose signatures do not fit; 0: not known
}

// errTooLarge says that a space has more files than an index of it may hold.
var errTooLarge = errors.New("the index is too large")

func newIndexes() *indexes { return &indexes{of: map[files.Space]*list.Element{}, order: list.New()} }

// get returns the index of a space, perhaps an empty one, locked.
func (x *indexes) get(ctx context.Context, space files.Space) (*spaceIndex, error) {
	x.mu.Lock()
	e, ok := x.of[space]
	if !ok {
		e = x.order.PushFront(&spaceIndex{space: space, lock: make(chan struct{}, 1), index: &trigram.Index{}})
		x.of[space] = e
	}
	x.order.MoveToFront(e)
	x.mu.Unlock()
	s := e.Value.(*spaceIndex)
	select {
	case s.lock <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put gives an index back, and lets go of others when all are too large.
func (x *indexes) put(s *spaceIndex) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e, kept := x.of[s.space]; kept && e.Value == s {
		x.bytes += s.index.Bytes() - s.bytes
		s.bytes = s.index.Bytes()
	}
	<-s.lock
	for x.bytes > maxIndexBytes && x.order.Len() > 1 {
		last := x.order.Remove(x.order.Back()).(*spaceIndex)
		delete(x.of, last.space)
		x.bytes -= last.bytes
	}
}

var _ files.Searcher = (*tree)(nil)

// Candidates implements [files.Searcher].
func (t *tree) Candidates(ctx context.Context, dir fsops.Path, q trigram.Query, after string, limit int) (files.Page, error) {
	after, end := max(after, dir.Key()), ""
	if !dir.IsRoot() {
		after, end = max(after, dir.Key()+"/"), dir.Key()+"0"
	}
	if t.store.withinUpdate(ctx) || t.q != Querier(checked{t.store}) {
		return t.Below(ctx, dir, after, limit) // what an update sees may never be: the index must not
	}
	var page files.Page
	for {
		keys, more, err := t.candidates(ctx, q, after, end, limit)
		if errors.Is(err, errTooLarge) {
			return t.Below(ctx, dir, after, limit)
		}
		if err != nil || len(keys) == 0 {
			return page, err
		}
		nodes, err := t.files(ctx, keys)
		if err != nil {
			return page, err
		}
		if page.Nodes, page.More = nodes, more; len(nodes) > 0 || !more {
			return page, nil
		}
		after = keys[len(keys)-1] // none of them is there any more
	}
}

// candidates selects keys from the index, which is brought up to date first.
func (t *tree) candidates(ctx context.Context, q trigram.Query, after, end string, limit int) ([]string, bool, error) {
	s, err := t.store.indexes.get(ctx, t.space)
	if err != nil {
		return nil, false, err
	}
	defer t.store.indexes.put(s)
	if err := t.refresh(ctx, s); err != nil {
		s.generation, s.rev, s.index = "", 0, &trigram.Index{}
		return nil, false, err
	}
	keys, more := s.index.Select(q, after, end, limit)
	return keys, more, nil
}

// refresh takes in what has changed since the index was used last. Updates of a space are numbered in the order in which they are committed, so whoever sees a number sees all
// lower ones.
func (t *tree) refresh(ctx context.Context, s *spaceIndex) error {
	var id, rev, count int64
	generation := ""
	err := t.q.Query(ctx, `SELECT id, generation, revisions, files FROM spaces WHERE name = ?1`, func(row Row) error {
		return row.Scan(&id, &generation, &rev, &count)
	}, string(t.space))
	if err != nil || generation == s.generation && rev == s.rev {
		return err
	}
	if s.tooMany > 0 && count > s.tooMany-s.tooMany/8 {
		return errTooLarge
	}
	if generation != s.generation || int64(s.index.Len()) > 2*count+1000 { // a new life, or mostly files that are gone
		s.generation, s.rev, s.index = generation, 0, &trigram.Index{}
	}
	take := func(row Row) error {
		var key string
		var at int64
		var signature []byte
		err := row.Scan(&key, &at, &signature)
		s.index.Put(key, signature)
		if s.rev = max(s.rev, at); s.index.Bytes() > maxIndexBytes {
			s.tooMany = count
			return errTooLarge
		}
		return err
	}
	if s.rev == 0 {
		// From the nodes, whose order is that of the index, and which leave out what only the history holds.
		err = t.q.Query(ctx, `SELECT n.key, c.rev, c.signature FROM nodes n JOIN contents c ON c.id = n.content_id WHERE n.space_id = ?1 AND n.kind = ?2 ORDER BY n.key`,
			take, id, int64(files.KindFile))
	} else {
		err = t.q.Query(ctx, `SELECT key, rev, signature FROM contents WHERE space_id = ?1 AND rev > ?2 ORDER BY rev`, take, id, s.rev)
	}
	s.rev = max(s.rev, rev)
	return err
}

// files returns the files that are at these keys, in order.
func (t *tree) files(ctx context.Context, keys []string) ([]files.Node, error) {
	paths := make([]fsops.Path, len(keys))
	for i, key := range keys {
		paths[i] = fsops.PathOf(key)
	}
	nodes, err := t.Get(ctx, paths...)
	out := nodes[:0]
	for _, n := range nodes {
		if n.Kind == files.KindFile {
			out = append(out, n)
		}
	}
	return out, err
}

// withinUpdate says whether a context is that of an update of this store.
func (s *Store) withinUpdate(ctx context.Context) bool {
	t, ok := ctx.Value(txKey{}).(*tx)
	return ok && t.store == s
}
