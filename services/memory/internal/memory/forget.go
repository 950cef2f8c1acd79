package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
)

// ForgetRequest selects what to forget: one of the three.
type ForgetRequest struct {
	IDs        []string
	Query      *SearchRequest
	Everything bool
	Redact     bool
	DryRun     bool
}

// Remainder is a place that still holds something.
type Remainder struct{ Place, Detail string }

// Receipt says what was removed.
type Receipt struct {
	FactIDs    []string
	Lines      map[string]int
	Events     int
	Remainders []Remainder
	Cursor     string
}

// oblivion is what is to be forgotten, in terms that hold for every file.
type oblivion struct {
	everything bool
	// ids and hashes are those of the facts that were asked for, and of the facts that those were made from.
	ids, hashes map[string]bool
	// removed and texts are the ids and texts of all that goes; a line that was made from a fact goes with it, but what else it was made from stays.
	removed, texts map[string]bool
	// events are the sequences of the journal that the facts came from, by session.
	events map[string]map[int64]bool
}

// take says whether a statement is to go, and remembers it.
func (o *oblivion) take(c call, st statement) bool {
	asked := o.everything || o.ids[st.ID] || o.hashes[st.Hash]
	if !asked && !slices.ContainsFunc(st.From, func(id string) bool { return o.ids[id] }) {
		return false
	}
	o.removed[st.ID], o.texts[contentHash(st.Text)] = true, true
	if !asked {
		return true
	}
	o.hashes[st.Hash] = true
	for _, id := range append(st.From, st.ID) {
		o.ids[id] = true
	}
	if st.Seq > 0 && st.Session != "" && st.Agent == c.id.Agent && st.User == c.id.User {
		if o.events[st.Session] == nil {
			o.events[st.Session] = map[int64]bool{}
		}
		o.events[st.Session][st.Seq] = true
	}
	return true
}

// takesRecord says whether a record is to go: also one whose line went before, such as that of a statement that another took the place of.
func (o *oblivion) takesRecord(r Record) bool {
	return o.everything || r.ID != "" && o.ids[r.ID] || o.texts[r.lineHash()] || slices.ContainsFunc(r.From, func(id string) bool { return o.ids[id] })
}

// Forget removes facts from files, records, versions and index, and on request from the journal.
func (s *Service) Forget(ctx context.Context, req ForgetRequest) (r Receipt, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return r, err
	}
	if req.Redact {
		if err := s.requireThreads(); err != nil {
			return r, err
		}
	}
	// Nobody saves or consolidates meanwhile in this process; other replicas meet the revisions of the files.
	for _, locks := range []*keyedLocks{&s.consolidating, &s.saving} {
		unlock, err := locks.lock(ctx, c.bucket.Key())
		if err != nil {
			return r, err
		}
		defer unlock()
	}
	o, err := s.selected(ctx, c, req)
	if err != nil {
		return r, err
	}
	if err := s.erase(ctx, c, req, o, &r); err != nil {
		return r, err
	}
	r.FactIDs = slices.Sorted(maps.Keys(o.removed))
	if err := s.redact(ctx, req, o, &r); err != nil {
		return r, err
	}
	return r, s.remainders(ctx, &r)
}

// selected finds the facts that the request means.
func (s *Service) selected(ctx context.Context, c call, req ForgetRequest) (*oblivion, error) {
	o := &oblivion{
		everything: req.Everything, ids: map[string]bool{}, hashes: map[string]bool{}, removed: map[string]bool{}, texts: map[string]bool{}, events: map[string]map[int64]bool{},
	}
	if req.Everything {
		return o, nil
	}
	key := c.memoryIndex()
	var found []index.Doc
	err := s.pool.Use(ctx, key, func(l *pool.Lease) error {
		if _, err := s.sync(ctx, l, key, 0); err != nil {
			return err
		}
		found = nil
		for _, id := range req.IDs {
			docs, err := l.Lookup(ctx, index.FieldFactID, id, 64)
			if err != nil {
				return err
			}
			found = append(found, docs...)
		}
		if req.Query == nil {
			return nil
		}
		return s.everyHit(ctx, l, *req.Query, func(d index.Doc) { found = append(found, d) })
	})
	if err != nil {
		return nil, public(err, key)
	}
	for _, d := range found {
		o.ids[d.FactID] = true
		if d.Hash != "" {
			o.hashes[d.Hash] = true
		}
	}
	return o, nil
}

// everyHit calls yield for all that a search finds.
func (s *Service) everyHit(ctx context.Context, l *pool.Lease, req SearchRequest, yield func(index.Doc)) error {
	q, globs, err := prepare(&req)
	if err != nil {
		return err
	}
	if len(globs) > 0 {
		if q.Filter.Sources, err = sourcesMatching(ctx, l, globs); err != nil {
			return err
		}
	}
	const page = 500
	for q.Limit = page; ; q.Offset += page {
		res, err := l.Search(ctx, q)
		if err != nil {
			return err
		}
		for _, h := range res.Hits {
			yield(h.Doc)
		}
		if len(res.Hits) < page {
			return nil
		}
	}
}

// erase goes through every file of the memory: first without writing, until nothing more is found that the facts were made from, then for good.
func (s *Service) erase(ctx context.Context, c call, req ForgetRequest, o *oblivion, r *Receipt) error {
	r.Lines = map[string]int{}
	files, err := s.memoryFiles(ctx)
	if err != nil {
		return err
	}
	pass := func(dry bool) error {
		for _, f := range sortedMemory(files) {
			if err := s.eraseFrom(ctx, c, dry, o, f.Path, r); err != nil {
				return err
			}
		}
		return nil
	}
	for known := -1; known != len(o.ids)+len(o.hashes); {
		known = len(o.ids) + len(o.hashes)
		if err := pass(true); err != nil {
			return err
		}
	}
	if req.DryRun {
		return nil
	}
	if err := pass(false); err != nil {
		return err
	}
	versions, err := s.ListVersions(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions {
		// A version is removed whole when it holds anything that goes: a version that was edited would be none.
		content, _, err := s.files.Read(ctx, v.File.Path)
		if err != nil && !errors.Is(err, ErrNoFile) {
			return err
		}
		gone := o.everything || slices.ContainsFunc(markdown.Parse(string(content)), func(u markdown.Unit) bool { return o.texts[contentHash(u.Text)] })
		if gone {
			if err := s.files.Delete(ctx, v.File.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// eraseFrom rewrites one file without what is to go, and its records.
func (s *Service) eraseFrom(ctx context.Context, c call, dry bool, o *oblivion, path string, r *Receipt) error {
	for range maxAttempts {
		data, info, err := s.files.Read(ctx, path)
		if errors.Is(err, ErrNoFile) {
			return nil
		}
		if err != nil {
			return err
		}
		records, recordInfo, err := s.readRecords(ctx, path)
		if err != nil {
			return err
		}
		content := string(data)
		gone := map[int]bool{}
		lines := 0
		for _, st := range s.statements(path, content, records, info.ModTime) {
			if !o.take(c, st) {
				continue
			}
			for n := st.Unit.Line; n <= st.EndLine; n++ {
				gone[n] = true
			}
			lines++
		}
		if lines > 0 {
			r.Lines[path] = lines
		}
		kept := slices.DeleteFunc(slices.Clone(records), o.takesRecord)
		if dry || lines == 0 && len(kept) == len(records) {
			return nil
		}
		encoded, err := encodeRecords(kept)
		if err != nil {
			return err
		}
		// Here the line goes first: a record without a line is harmless, a line without its record would count as written by hand.
		var changes []Change
		if lines > 0 {
			changes = append(changes, Change{Path: path, Content: []byte(without(content, gone)), Condition: IfRevision, Revision: info.Revision})
		}
		if recordInfo.Revision != "" {
			changes = append(changes, Change{Path: recordPath(path), Content: encoded, Condition: IfRevision, Revision: recordInfo.Revision})
		}
		cursor, err := s.files.Write(ctx, effect.Derive(c.id.Effect, "memory.forget/"+path+"/"+info.Revision), changes)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err == nil {
			r.Cursor = cursor
		}
		return err
	}
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonConflict, "%s changed %d times while something was removed from it", path, maxAttempts).With("path", path)
}

// without gives a text without some of its lines.
func without(content string, gone map[int]bool) string {
	var b strings.Builder
	for i, line := range strings.SplitAfter(content, "\n") {
		if !gone[i+1] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// redact removes the events from the journal that the facts came from, or tells that they are still there.
func (s *Service) redact(ctx context.Context, req ForgetRequest, o *oblivion, r *Receipt) error {
	for session, seqs := range o.events {
		if req.Redact && !req.DryRun {
			n, err := s.threads.Redact(ctx, session, slices.Sorted(maps.Keys(seqs)), "forgotten")
			if err != nil {
				return err
			}
			r.Events += n
			continue
		}
		r.Remainders = append(r.Remainders, Remainder{"journal", "the messages of the thread that the facts were taken from"})
	}
	return nil
}

// remainders tells what the file service keeps of the files as they were.
func (s *Service) remainders(ctx context.Context, r *Receipt) error {
	keeps, err := s.files.KeepsHistory(ctx)
	if err != nil {
		return err
	}
	if keeps && len(r.Lines) > 0 {
		r.Remainders = append(r.Remainders, Remainder{"file_history", "earlier revisions of the files that were changed, for as long as the file service keeps them"})
	}
	r.Remainders = slices.Compact(r.Remainders)
	return nil
}
