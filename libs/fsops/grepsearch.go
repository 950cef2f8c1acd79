package fsops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// search is one file being searched.
type search struct {
	grep   *Grep
	hit    func(Hit) error
	result FileResult

	line    int64    // number of the line at the start of the block in work
	recent  []string // lines before it, as context asks for them
	pending []*Hit   // hits that still wait for lines after them, oldest first
	pieces  bool     // the line in work is longer than a piece: its beginning has been searched
	hitLong bool     // ... and has matched
	base    int64    // position of the piece in that line
	last    bool     // the block in work is the last one
	filter  *lineFilter
}

// searches keeps what searches work with, so that one file more costs nothing.
var searches = sync.Pool{New: func() any { return new(search) }}

// blocks keeps buffers for streams.
var blocks = sync.Pool{New: func() any { b := make([]byte, grepBlockBytes); return &b }}

func (g *Grep) begin(hit func(Hit) error) *search {
	s := searches.Get().(*search)
	*s = search{grep: g, hit: hit, line: 1}
	if g.filters != nil {
		s.filter = g.filters.Get().(*lineFilter)
	}
	return s
}

func (s *search) end() {
	if s.filter != nil {
		s.grep.filters.Put(s.filter)
	}
	*s = search{}
	searches.Put(s)
}

func (s *search) outcome(err error) (FileResult, error) {
	if errors.Is(err, ErrStop) {
		s.result.Stopped = true
		err = nil
	}
	return s.result, err
}

// candidate returns a place at or after from, which is where a line begins, whose line is worth a look; -1 for none.
func (s *search) candidate(block []byte, from int) int {
	g := s.grep
	switch {
	case from >= len(block):
		return -1
	case g.finder != nil && !g.loose:
		return g.finder.index(block, from)
	case g.finder != nil:
		at := g.finder.index(block, from)
		if at >= 0 {
			block = block[:at]
		}
		if odd := notComposed(block, from); odd >= 0 {
			return odd
		}
		return at
	case s.filter != nil:
		return s.filter.index(block, from)
	case g.literal != nil: // with a line break
		return -1
	}
	return from
}

func (s *search) run(ctx context.Context, content io.Reader) error {
	pooled := blocks.Get().(*[]byte)
	defer blocks.Put(pooled)
	buf := (*pooled)[:0]
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(buf) == cap(buf) {
			if cap(buf) < maxLineBytes {
				buf = append(make([]byte, 0, min(4*cap(buf), maxLineBytes)), buf...)
			} else {
				rest, err := s.piece(buf)
				if err != nil {
					return err
				}
				buf = append(buf[:0], rest...)
			}
		}
		n, err := io.ReadAtLeast(content, buf[len(buf):cap(buf)], min(BinaryProbeBytes, cap(buf)-len(buf)))
		buf = buf[:len(buf)+n]
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return err
		}
		if first {
			if IsBinary(buf) {
				s.result.Binary = true
				return nil
			}
			buf = bytes.TrimPrefix(buf, byteOrderMark)
		}
		s.last = end
		block := buf
		if !end {
			block = buf[:bytes.LastIndexByte(buf, '\n')+1]
		}
		if err := s.block(block); err != nil {
			return err
		}
		if end {
			return s.flush()
		}
		buf = append(buf[:0], buf[len(block):]...)
	}
}

// block searches whole lines; only the last block of a file may end without a line break.
func (s *search) block(block []byte) error {
	if s.pieces && len(block) > 0 {
		end := lineEnd(block, 0)
		if err := s.rest(block[:end]); err != nil {
			return err
		}
		s.pieces, s.hitLong, s.base = false, false, 0
		s.line++
		block = block[min(end+1, len(block)):]
	}
	pos := 0 // start of the first line that was not dealt with; those up to from hold no match
	for from := 0; ; {
		at := s.candidate(block, from)
		if at < 0 {
			return s.pass(block[pos:], true)
		}
		start := from + bytes.LastIndexByte(block[from:at], '\n') + 1
		end := lineEnd(block, start)
		from = min(end+1, len(block))
		line := bytes.TrimSuffix(block[start:end], []byte{'\r'})
		first, last, ok := s.first(line)
		if !ok {
			continue
		}
		if err := s.pass(block[pos:start], false); err != nil {
			return err
		}
		if err := s.found(line, first, last); err != nil {
			return err
		}
		s.line++
		pos = from
	}
}

// pass goes over lines that hold no match; rest says that no match follows in the block.
func (s *search) pass(lines []byte, rest bool) error {
	for len(s.pending) > 0 && len(lines) > 0 {
		end := lineEnd(lines, 0)
		if err := s.context(lines[:end]); err != nil {
			return err
		}
		s.line++
		lines = lines[min(end+1, len(lines)):]
	}
	if len(lines) == 0 || s.last && rest {
		return nil
	}
	s.line += int64(bytes.Count(lines, newline))
	if lines[len(lines)-1] != '\n' {
		s.line++
	}
	if s.grep.request.Before > 0 {
		s.keepLast(lines)
	}
	return nil
}

// keepLast remembers the last of the lines as context for what follows.
func (s *search) keepLast(lines []byte) {
	lines = bytes.TrimSuffix(lines, newline)
	starts := make([]int, 0, s.grep.request.Before)
	for end := len(lines); end >= 0 && len(starts) < s.grep.request.Before; {
		start := bytes.LastIndexByte(lines[:end], '\n') + 1
		starts = append(starts, start)
		end = start - 1
	}
	for i := len(starts) - 1; i >= 0; i-- {
		s.remember(lines[starts[i]:lineEnd(lines, starts[i])])
	}
}

func (s *search) remember(line []byte) {
	if s.grep.request.Before == 0 {
		return
	}
	text, _ := shown(line)
	if s.recent = append(s.recent, text); len(s.recent) > s.grep.request.Before {
		s.recent = s.recent[1:]
	}
}

// context gives a line to the hits that wait for it, and keeps it for those that follow.
func (s *search) context(line []byte) error {
	for _, h := range s.pending {
		if h.Line < s.line { // An earlier piece of this very line may have matched.
			text, _ := shown(line)
			h.After = append(h.After, text)
		}
	}
	s.remember(line)
	for len(s.pending) > 0 && len(s.pending[0].After) >= s.grep.request.After {
		if err := s.emit(s.pending[0]); err != nil {
			return err
		}
		s.pending = s.pending[1:]
	}
	return nil
}

// first is [Grep.first], after a quick look that most lines do not pass.
func (s *search) first(line []byte) (start, end int, ok bool) {
	if s.grep.finder != nil && s.filter != nil && len(line) > 0 && s.filter.index(line, 0) < 0 {
		return 0, 0, false
	}
	return s.grep.first(line)
}

// found takes in a line that matches.
func (s *search) found(line []byte, start, end int) error {
	h := &Hit{Line: s.line, Column: int64(start) + 1, Length: int64(end - start), Before: slices.Clone(s.recent)}
	h.Text, h.TextTruncated = shown(line)
	if err := s.context(line); err != nil {
		return err
	}
	if s.grep.request.After > 0 {
		s.pending = append(s.pending, h)
		return nil
	}
	return s.emit(h)
}

// rest looks at the last piece of an over-long line, from which text and context come.
func (s *search) rest(line []byte) error {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	start, end, ok := s.grep.first(line)
	if !ok || s.hitLong {
		return s.context(line)
	}
	h := &Hit{Line: s.line, Column: s.base + int64(start) + 1, Length: int64(end - start), Before: slices.Clone(s.recent), TextTruncated: true}
	h.Text, _ = shown(line)
	if err := s.context(line); err != nil {
		return err
	}
	if s.grep.request.After > 0 {
		s.pending = append(s.pending, h)
		return nil
	}
	return s.emit(h)
}

func (s *search) emit(h *Hit) error {
	s.result.Hits++
	return s.hit(*h)
}

func (s *search) flush() error {
	for _, h := range s.pending {
		if err := s.emit(h); err != nil {
			return err
		}
	}
	s.pending = nil
	return nil
}

// piece searches the beginning of a line that is longer than the buffer, and returns what is to be searched again with the next piece.
func (s *search) piece(buf []byte) ([]byte, error) {
	s.result.LongLine = s.line
	if !s.hitLong {
		if start, end, ok := s.grep.first(buf); ok {
			h := &Hit{Line: s.line, Column: s.base + int64(start) + 1, Length: int64(end - start)}
			h.Text, h.TextTruncated = shown(buf)
			h.Before = slices.Clone(s.recent)
			s.hitLong = true
			if s.grep.request.After > 0 {
				s.pending = append(s.pending, h)
			} else if err := s.emit(h); err != nil {
				return nil, err
			}
		}
	}
	s.pieces = true
	from := len(buf) - pieceOverlap
	for from < len(buf) && !utf8.RuneStart(buf[from]) {
		from++
	}
	s.base += int64(from)
	return buf[from:], nil
}

// lineEnd returns where the line that begins at start ends: at its "\n", or at the end of the data.
func lineEnd(data []byte, start int) int {
	if i := bytes.IndexByte(data[start:], '\n'); i >= 0 {
		return start + i
	}
	return len(data)
}
