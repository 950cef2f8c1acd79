package files

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// Grep is a search of content.
type Grep struct {
	Search     *fsops.Grep
	Path       fsops.Path            // a directory, or one file; what excludes the directory itself does not count
	Glob       *fsops.Glob           // nil: every file
	Ignored    bool                  // also what .gitignore files exclude
	Allowed    func(fsops.Path) bool // nil: every path
	MaxMatches int
	MaxPerFile int
	MaxTime    time.Duration
}

// GrepEnd says how a search ended.
type GrepEnd struct {
	// Files that were searched, without those that an index rules out, and binary files passed over.
	Matches, Files, BinaryFiles int64
	// Reason why the search is not complete: "max_matches", "max_time", "unreadable"; "" when it is.
	Reason   string
	Warnings []string
}

// Hit is a match in a file.
type Hit struct {
	Path  fsops.Path
	Layer Layer
	fsops.Hit
}

// Grep passes matches to emit, file by file in the order of paths. What it could not look at is told at the end, never left out in silence.
//
// A bucket of plain files is scanned by all processors (see [Scanner]). Other trees are read in batches, and only the files that may match where there is an index (see [Searcher]).
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
	view *View
	grep Grep
	base fsops.Path // of the globs
	emit func(Hit) error
	end  GrepEnd
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
		return s.stream(ctx, at.entry)
	}
	s.base = at.path
	w, err := s.view.newSearch(ctx, at, s.grep.Glob, s.grep.Ignored, s.grep.Allowed)
	if err != nil || w == nil {
		return err
	}
	if _, ok := s.view.own.(Scanner); ok {
		return s.scan(ctx, w.start, w.ignores.of(w.start.path))
	}
	return s.batches(ctx, w)
}

// perFile is how many hits of one file are of interest. One more tells that there are more.
func (s *grepRun) perFile() int { return min(s.grep.MaxPerFile, s.grep.MaxMatches) }

// taker collects the hits of one file, as many as are of interest.
func (s *grepRun) taker(hits *[]fsops.Hit) func(fsops.Hit) error {
	return func(h fsops.Hit) error {
		*hits = append(*hits, h)
		if len(*hits) > s.perFile() {
			return fsops.ErrStop
		}
		return nil
	}
}

// stream searches one file of any size.
func (s *grepRun) stream(ctx context.Context, e Entry) error {
	_, content, err := s.view.Open(ctx, e.Path)
	if err != nil {
		return s.passOver(ctx, e, err)
	}
	defer content.Close()
	n := 0
	result, err := s.grep.Search.Search(ctx, NewReader(ctx, content, 0), func(h fsops.Hit) error {
		n++
		return s.send(Hit{Path: e.Path, Layer: e.Layer, Hit: h}, n-1)
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
	if !isGone(err) {
		s.warn(e.Path.String() + ": " + publicText(err))
	}
	return nil
}

func isGone(err error) bool { return errors.Is(err, errdefs.ErrNotFound) }

// publicText is what callers may read of an error.
func publicText(err error) string {
	if known, ok := errors.AsType[*errdefs.Error](err); ok {
		return known.Public()
	}
	return "can't be read"
}

func (s *grepRun) count(e Entry, r fsops.FileResult) {
	if r.Binary {
		s.end.BinaryFiles++
		return
	}
	s.end.Files++
	if text := s.inPieces(r); text != "" {
		s.warn(e.Path.String() + ": " + text)
	}
}

// inPieces says what may have been missed in a file, "" for nothing.
func (s *grepRun) inPieces(r fsops.FileResult) string {
	if r.LongLine == 0 || !s.grep.Search.MayMissInPieces() {
		return ""
	}
	return "line " + strconv.FormatInt(r.LongLine, 10) + " is over 8 MiB and was searched in pieces"
}

func (s *grepRun) warn(text string) {
	if len(s.end.Warnings) < maxWarnings {
		text, _ = fsops.Text(text)
		s.end.Warnings = append(s.end.Warnings, text)
	}
}

// sendAll sends the hits of one file.
func (s *grepRun) sendAll(p fsops.Path, layer Layer, hits []fsops.Hit) error {
	for n, h := range hits {
		if err := s.send(Hit{Path: p, Layer: layer, Hit: h}, n); err != nil {
			if errors.Is(err, fsops.ErrStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// send emits hit number n of a file, unless a cap is reached: that of the file ends this file, that of the search ends all.
func (s *grepRun) send(h Hit, n int) error {
	switch {
	case s.end.Matches >= int64(s.grep.MaxMatches):
		return errEnough
	case n >= s.grep.MaxPerFile:
		s.capped = true
		return fsops.ErrStop
	}
	s.end.Matches++
	return s.emit(h)
}
