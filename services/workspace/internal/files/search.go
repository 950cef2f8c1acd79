package files

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// loadBytes bounds how much content one batch of a search holds in memory.
	loadBytes = 8 << 20
	// loadFiles bounds how many files one batch holds.
	loadFiles = 512
	// smallFile is the size up to which files are searched in batches; larger ones stream.
	smallFile = 1 << 20
)

// Grep is a search of content.
type Grep struct {
	Search     *fsops.Grep
	Path       fsops.Path            // a directory, or one file
	Glob       *fsops.Glob           // nil: every file
	Ignored    bool                  // also what .gitignore files exclude
	Allowed    func(fsops.Path) bool // nil: every path
	MaxMatches int
	MaxPerFile int
	MaxTime    time.Duration
}

// GrepEnd says how a search ended.
type GrepEnd struct {
	Matches, Files, BinaryFiles int64
	// Reason why the search is not complete: "max_matches", "max_time", "unreadable"; "" when it is.
	Reason   string
	Warnings []string
}

// Hit is a match in a file.
type Hit struct {
	Entry Entry
	fsops.Hit
}

// Grep passes matches to emit, file by file in the order of paths. What it could not look at is told at the end, never left out in silence.
func (v *View) Grep(ctx context.Context, g Grep, emit func(Hit) error) (GrepEnd, error) {
	s := &grepRun{view: v, grep: g, emit: emit}
	limited, cancel := context.WithTimeout(ctx, g.MaxTime)
	defer cancel()
	err := s.run(limited)
	switch {
	case errors.Is(err, errEnough):
		s.end.Reason = "max_matches"
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		s.end.Reason = "max_time"
	case err != nil:
		return s.end, err
	case s.capped:
		s.end.Reason = "max_matches"
	case len(s.end.Warnings) > 0:
		s.end.Reason = "unreadable"
	}
	return s.end, nil
}

var errEnough = errors.New("enough matches")

type grepRun struct {
	view  *View
	grep  Grep
	emit  func(Hit) error
	end   GrepEnd
	batch []Entry
	bytes int64
	// capped says that a file had more hits than one file may have.
	capped bool
}

func (s *grepRun) run(ctx context.Context) error {
	at, err := s.view.see(ctx, s.grep.Path)
	if err != nil {
		return err
	}
	if at.entry.Kind == KindFile {
		if s.grep.Glob != nil && !s.grep.Glob.Match(at.path) && !s.grep.Glob.Match(fsops.PathOf(at.path.Name())) {
			return nil
		}
		return s.large(ctx, at.entry)
	}
	w, err := s.view.newSearch(ctx, at, s.grep.Glob, s.grep.Ignored, s.grep.Allowed, "")
	if err != nil || w == nil {
		return err
	}
	for {
		e, ok, err := w.merge.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if e.Kind != KindFile {
			continue
		}
		if wanted, err := w.wanted(ctx, e); err != nil || !wanted {
			if err != nil {
				return err
			}
			continue
		}
		if err := s.add(ctx, e); err != nil {
			return err
		}
	}
	s.end.Warnings = append(s.end.Warnings, w.merge.warnings...)
	return s.flush(ctx)
}

func (s *grepRun) add(ctx context.Context, e Entry) error {
	if e.Size > smallFile {
		if err := s.flush(ctx); err != nil {
			return err
		}
		return s.large(ctx, e)
	}
	s.batch, s.bytes = append(s.batch, e), s.bytes+e.Size
	if len(s.batch) < loadFiles && s.bytes < loadBytes {
		return nil
	}
	return s.flush(ctx)
}

// fileHits is what one file of a batch gave.
type fileHits struct {
	hits   []fsops.Hit
	result fsops.FileResult
	err    error
	gone   bool
}

// flush searches the batch on all processors and emits in order.
func (s *grepRun) flush(ctx context.Context) error {
	batch := s.batch
	s.batch, s.bytes = nil, 0
	if len(batch) == 0 {
		return ctx.Err()
	}
	data, err := s.load(ctx, batch)
	if err != nil {
		return err
	}
	found := make([]fileHits, len(batch))
	var wait sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(batch))
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(batch); i += workers {
				found[i] = s.searchOne(ctx, data[i])
			}
		})
	}
	wait.Wait()
	for i, f := range found {
		if f.err != nil {
			return f.err
		}
		if f.gone {
			// Gone, changed or unreadable: look again, alone.
			if err := s.large(ctx, batch[i]); err != nil {
				return err
			}
			continue
		}
		s.count(batch[i], f.result)
		for n, h := range f.hits {
			if err := s.send(batch[i], n, h); err != nil && !errors.Is(err, fsops.ErrStop) {
				return err
			}
		}
	}
	return nil
}

// load fetches the contents of a batch, tree by tree.
func (s *grepRun) load(ctx context.Context, batch []Entry) ([][]byte, error) {
	data := make([][]byte, len(batch))
	byLayer := map[Layer][]int{}
	for i, e := range batch {
		byLayer[e.Layer] = append(byLayer[e.Layer], i)
	}
	for layer, indexes := range byLayer {
		nodes := make([]Node, len(indexes))
		for i, at := range indexes {
			nodes[i] = batch[at].Node
		}
		contents, err := s.view.treeOf(layer).Load(ctx, nodes...)
		if err != nil {
			return nil, err
		}
		for i, at := range indexes {
			data[at] = contents[i]
		}
	}
	return data, nil
}

func (s *grepRun) searchOne(ctx context.Context, data []byte) fileHits {
	if data == nil {
		return fileHits{gone: true}
	}
	var f fileHits
	f.result, f.err = s.grep.Search.Search(ctx, bytes.NewReader(data), func(h fsops.Hit) error {
		f.hits = append(f.hits, h)
		if len(f.hits) > s.perFile() {
			return fsops.ErrStop
		}
		return nil
	})
	return f
}

// perFile is how many hits of one file are of interest. One more tells that there are more.
func (s *grepRun) perFile() int { return min(s.grep.MaxPerFile, s.grep.MaxMatches) }

// large streams one file.
func (s *grepRun) large(ctx context.Context, e Entry) error {
	_, content, err := s.view.Open(ctx, e.Path)
	if err != nil {
		return s.passOver(ctx, e, err)
	}
	defer content.Close()
	n := 0
	result, err := s.grep.Search.Search(ctx, NewReader(ctx, content, 0), func(h fsops.Hit) error {
		n++
		return s.send(e, n-1, h)
	})
	if err == nil || errors.Is(err, errEnough) {
		s.count(e, result)
	}
	return err
}

// passOver decides what an error at one file means for the search: a file that was deleted meanwhile is nothing, one that can't be read is told at the end.
func (s *grepRun) passOver(ctx context.Context, e Entry, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errdefs.ErrNotFound) {
		return nil
	}
	reason := "can't be read"
	if known, ok := errors.AsType[*errdefs.Error](err); ok {
		reason = known.Public()
	}
	s.warn(e.Path.String() + ": " + reason)
	return nil
}

func (s *grepRun) count(e Entry, r fsops.FileResult) {
	if r.Binary {
		s.end.BinaryFiles++
		return
	}
	s.end.Files++
	if r.LongLine > 0 && s.grep.Search.MayMissInPieces() {
		s.warn(e.Path.String() + ": line " + strconv.FormatInt(r.LongLine, 10) + " is over 8 MiB and was searched in pieces")
	}
}

func (s *grepRun) warn(text string) {
	if len(s.end.Warnings) < maxWarnings {
		text, _ = fsops.Text(text)
		s.end.Warnings = append(s.end.Warnings, text)
	}
}

// send emits hit number n of a file, unless a cap is reached: that of the file ends this file, that of the search ends all.
func (s *grepRun) send(e Entry, n int, h fsops.Hit) error {
	switch {
	case s.end.Matches >= int64(s.grep.MaxMatches):
		return errEnough
	case n >= s.grep.MaxPerFile:
		s.capped = true
		return fsops.ErrStop
	}
	s.end.Matches++
	return s.emit(Hit{Entry: e, Hit: h})
}
