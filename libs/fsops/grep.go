package fsops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// DefaultMaxMatches is the cap of one search when the request states none.
	DefaultMaxMatches = 1000
	// MaxMatchText is how many characters of a line a hit shows.
	MaxMatchText = 2000
	// MaxGrepContext bounds the lines before and after a hit.
	MaxGrepContext = 20

	grepBlockBytes = 256 << 10
	// maxLineBytes is the longest line that is searched in one piece.
	maxLineBytes = 8 << 20
	// pieceOverlap is how much of a piece of a longer line is searched again with the next one.
	pieceOverlap = 64 << 10
)

// ErrStop, returned by the function that takes hits, ends the search of this file without an error.
var ErrStop = errors.New("stop the search")

// GrepRequest is what to look for.
type GrepRequest struct {
	// Pattern is the text, or a regular expression (RE2) when Regex is set. A line break in a literal pattern finds nothing.
	Pattern string
	// Regex takes Pattern as RE2.
	Regex bool
	// IgnoreCase compares by Unicode simple folding.
	IgnoreCase bool
	// Before and After are the lines of context, at most 20.
	Before, After int
}

// Grep is a compiled search. It is safe for concurrent use.
//
// Lines are compared as they are stored, except that a pattern with characters beyond ASCII, and every regular expression, is compared in Unicode NFC. A byte-order
// mark of UTF-8 at the start of a file is no part of its first line. UTF-16 counts as binary, for its NUL bytes.
type Grep struct {
	request GrepRequest
	literal []byte         // in NFC; nil for a regular expression and for ignore-case
	re      *regexp.Regexp // nil for a literal
	compose bool           // lines are compared in NFC
	needs   Needs
	finder  *finder // what a line must hold to be worth a look at; nil: not known
	// loose says that a line that is not in NFC is worth a look too.
	loose   bool
	filters *sync.Pool // of *lineFilter; nil for a literal, and for an expression that is too large
}

// Hit is one line that matches.
type Hit struct {
	// Line counts from 1.
	Line int64
	// Column is where the first match begins, in bytes of the stored line, from 1.
	Column int64
	// Length is how many bytes of the stored line it covers.
	Length int64
	// Text is the line without its ending, wrong bytes replaced, cut after 2,000 characters.
	Text string
	// TextTruncated says that Text was cut.
	TextTruncated bool
	// Before and After are the lines of context, in order, cut like Text.
	Before, After []string
}

// FileResult is the outcome of searching one file.
type FileResult struct {
	// Binary says that the file was skipped.
	Binary bool
	// Hits counts the hits passed on.
	Hits int64
	// Stopped says that the receiver ended the search.
	Stopped bool
	// LongLine is the number of a line that was so long (over 8 MiB) that it was searched in pieces; 0 for none. A match of a regular expression that
	// is longer than 64 KiB may be missed in it.
	LongLine int64
}

// CompileGrep reads a search. PATTERN_INVALID for a regular expression that does not compile, and for a pattern that is not UTF-8.
func CompileGrep(req GrepRequest) (*Grep, error) {
	if !utf8.ValidString(req.Pattern) {
		return nil, errPattern(req.Pattern, strings.IndexRune(req.Pattern, utf8.RuneError), "is not UTF-8")
	}
	req.Before = min(max(req.Before, 0), MaxGrepContext)
	req.After = min(max(req.After, 0), MaxGrepContext)
	g := &Grep{request: req, compose: req.Regex || !isASCII(req.Pattern)}
	pattern := norm.NFC.String(req.Pattern)
	if !req.Regex && !req.IgnoreCase {
		g.literal = []byte(pattern)
		if strings.Contains(pattern, "\n") {
			return g, nil // no line holds it
		}
		g.needs = Needs{{pattern}}
		if g.finder = newFinder(g.needs, worthIt, false, g.compose); g.finder == nil {
			g.finder, g.loose = newFinder(g.needs, 0, false, false), g.compose
		}
		return g, nil
	}
	if !req.Regex {
		pattern = regexp.QuoteMeta(pattern)
	}
	if req.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, regexError(req.Pattern, err)
	}
	g.re = re
	return g, g.prepare(pattern)
}

// maxFilterInsts bounds the expressions that get a filter.
const maxFilterInsts = 500

// prepare finds out how to pass over lines that can't match.
func (g *Grep) prepare(pattern string) error {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return regexError(g.request.Pattern, err)
	}
	parsed = parsed.Simplify()
	a := analyser{fold: foldsCase(parsed)}
	g.needs = a.needs(parsed)
	g.finder = newFinder(g.needs, worthIt, a.fold, true)
	if prog, err := syntax.Compile(parsed); err == nil && len(prog.Inst) <= maxFilterInsts {
		g.filters = &sync.Pool{New: func() any { return newLineFilter(prog) }}
	}
	return nil
}

// Needs returns what a line must hold to match.
func (g *Grep) Needs() Needs { return g.needs }

func regexError(pattern string, err error) error {
	problem, position := "is not RE2", 0
	if se, ok := errors.AsType[*syntax.Error](err); ok {
		problem = "is not RE2: " + string(se.Code)
		if i := strings.Index(pattern, se.Expr); i >= 0 {
			position = i
		}
	}
	return errPattern(pattern, position, problem)
}

// Search streams content, whose size may be anything, and passes each matching line to hit, in order. Memory stays bounded: a block, at most one line of 8 MiB,
// and the lines of context. Errors are those of reading, of ctx, and of hit other than [ErrStop].
func (g *Grep) Search(ctx context.Context, content io.Reader, hit func(Hit) error) (FileResult, error) {
	s := g.begin(hit)
	defer s.end()
	return s.outcome(s.run(ctx, content))
}

// SearchBytes is Search for a file that is in memory. Without a match it allocates nothing.
func (g *Grep) SearchBytes(data []byte, hit func(Hit) error) (FileResult, error) {
	if IsBinary(data) {
		return FileResult{Binary: true}, nil
	}
	data = bytes.TrimPrefix(data, byteOrderMark)
	s := g.begin(hit)
	defer s.end()
	s.last = true
	err := s.block(data)
	if err == nil {
		err = s.flush()
	}
	return s.outcome(err)
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// first returns the first match in a line, in bytes of the stored line. The line has no ending.
func (g *Grep) first(line []byte) (start, end int, ok bool) {
	if !g.compose || norm.NFC.IsNormal(line) {
		return g.firstIn(line)
	}
	v := newView(line, false)
	start, end, ok = g.firstIn(v.data)
	if !ok {
		return 0, 0, false
	}
	// A match may begin or end inside a character that was composed: widen it to the whole.
	return v.floor(start), v.ceil(end), true
}

func (g *Grep) firstIn(line []byte) (start, end int, ok bool) {
	if g.re == nil {
		i := bytes.Index(line, g.literal)
		return i, i + len(g.literal), i >= 0
	}
	at := g.re.FindIndex(line)
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}

func (v *view) floor(pos int) int {
	for {
		if at, ok := v.original(pos); ok {
			return at
		}
		pos--
	}
}

func (v *view) ceil(pos int) int {
	for {
		if at, ok := v.original(pos); ok {
			return at
		}
		pos++
	}
}

// shown is a line as a hit shows it.
func shown(line []byte) (text string, truncated bool) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) > MaxMatchText {
		end, characters := 0, 0
		for end < len(line) && characters < MaxMatchText {
			_, n := utf8.DecodeRune(line[end:])
			end += n
			characters++
		}
		truncated = end < len(line)
		line = line[:end]
	}
	return strings.ToValidUTF8(string(line), "\uFFFD"), truncated
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// MayMissInPieces says whether a match in a line that is searched in pieces may be missed: only one longer than 64 KiB, so never that of a literal.
func (g *Grep) MayMissInPieces() bool { return g.request.Regex }
