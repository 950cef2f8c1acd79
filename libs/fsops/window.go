package fsops

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// DefaultWindowLines is how many lines a window holds when the request states no limit.
	DefaultWindowLines = 2000
	// DefaultWindowBytes is how many bytes a window holds when the request states no limit.
	DefaultWindowBytes = 256 << 10
	// MaxWindowBytes bounds a window.
	MaxWindowBytes = 4 << 20
	// MaxCountBytes is the size of file up to which lines are counted for the answer.
	MaxCountBytes = 64 << 20
	// BinaryProbeBytes is how much of a file is looked at to tell whether it is binary.
	BinaryProbeBytes = 8 << 10

	scanBytes = 128 << 10
)

// Content is the bytes of one revision of a file.
type Content interface {
	io.ReaderAt
	// Size is the length in bytes.
	Size() int64
}

// WindowRequest asks for a part of a file.
type WindowRequest struct {
	// OffsetLines is the first line, from 0. Ignored in bytes mode, and when OffsetBytes is set.
	OffsetLines int64
	// OffsetBytes is the first byte. In text mode, a position inside a character moves to its start.
	OffsetBytes int64
	// LimitLines is the most lines. <= 0: 2,000. Ignored in bytes mode.
	LimitLines int64
	// LimitBytes is the most bytes. <= 0: 256 KiB. More than 4 MiB count as 4 MiB.
	LimitBytes int64
}

// Window is a part of a file, and where to go on.
type Window struct {
	// Data is the part as stored. In text mode it ends at the border of a character, and before a half line that began inside the window if
	// whole lines precede it.
	Data []byte
	// StartLine is the line number of the first byte, from 0; -1 when it was not counted (files over 64 MiB read from a byte position).
	StartLine int64
	// LineCount is how many lines Data touches, the first and the last possibly in part. 0 in bytes mode.
	LineCount int64
	// StartByte is the position of the first byte.
	StartByte int64
	// NextByte is the position to go on from; the size at the end of the file.
	NextByte int64
	// NextLine is the line to go on from, when the window ended at the border of a line; else the line that it ended in.
	NextLine int64
	// More says that something follows.
	More bool
	// PartialLine says that the window ended inside a line: go on from NextByte.
	PartialLine bool
	// Binary says that the file has a NUL in its first 8 KiB.
	Binary bool
	// TotalLines is the number of lines of the file, an unfinished last one included; -1 when not counted (over 64 MiB).
	TotalLines int64
}

// Text returns the data of a text window as UTF-8, wrong bytes replaced by U+FFFD, and whether that changed it.
func (w Window) Text() (text string, replaced bool) {
	if utf8.Valid(w.Data) {
		return string(w.Data), false
	}
	return strings.ToValidUTF8(string(w.Data), "\uFFFD"), true
}

// ReadBytes returns a window of bytes. An offset past the end gives an empty window at the end.
func ReadBytes(ctx context.Context, c Content, req WindowRequest) (Window, error) {
	size := c.Size()
	w := Window{StartByte: min(max(req.OffsetBytes, 0), size), TotalLines: -1, StartLine: -1}
	var err error
	if w.Binary, err = probeBinary(ctx, c); err != nil {
		return Window{}, err
	}
	if w.Data, err = readRange(ctx, c, w.StartByte, min(size-w.StartByte, limitBytes(req))); err != nil {
		return Window{}, err
	}
	w.NextByte = w.StartByte + int64(len(w.Data))
	w.More = w.NextByte < size
	return w, nil
}

// ReadText returns a window of lines. Lines end in "\n"; a "\r" before it is content. A line that does not fit is cut at the border of a
// character and continued from NextByte. An offset at or past the end gives an empty window at the end, with TotalLines set.
func ReadText(ctx context.Context, c Content, req WindowRequest) (Window, error) {
	size := c.Size()
	var w Window
	var err error
	if w.Binary, err = probeBinary(ctx, c); err != nil {
		return Window{}, err
	}
	if w.StartByte, w.StartLine, err = startOf(ctx, c, req); err != nil {
		return Window{}, err
	}
	// A window holds at least one character, so that following it always gets on.
	data, err := readRange(ctx, c, w.StartByte, min(size-w.StartByte, max(limitBytes(req), utf8.UTFMax)))
	if err != nil {
		return Window{}, err
	}
	lines := req.LimitLines
	if lines <= 0 {
		lines = DefaultWindowLines
	}
	end, whole := cutLines(data, lines)
	atEnd := w.StartByte+int64(len(data)) == size
	switch {
	case end < len(data) && whole == lines:
		data = data[:end]
	case atEnd:
		// The unfinished last line belongs to the window.
	case end > 0:
		data = data[:end]
	default:
		data = cutCharacter(data)
		w.PartialLine = true
	}
	w.Data = data
	w.NextByte = w.StartByte + int64(len(data))
	w.More = w.NextByte < size
	newlines := int64(bytes.Count(data, newline))
	w.LineCount = newlines
	if len(data) > 0 && data[len(data)-1] != '\n' {
		w.LineCount++
	}
	w.NextLine = -1
	if w.StartLine >= 0 {
		w.NextLine = w.StartLine + newlines
		if !w.More {
			w.NextLine = w.StartLine + w.LineCount
		}
	}
	w.TotalLines, err = totalLines(ctx, c)
	return w, err
}

var newline = []byte{'\n'}

func limitBytes(req WindowRequest) int64 {
	if req.LimitBytes <= 0 {
		return DefaultWindowBytes
	}
	return min(req.LimitBytes, MaxWindowBytes)
}

// startOf finds the first byte and the first line of a text window.
func startOf(ctx context.Context, c Content, req WindowRequest) (pos, line int64, err error) {
	size := c.Size()
	if req.OffsetBytes <= 0 {
		return seekLine(ctx, c, max(req.OffsetLines, 0))
	}
	pos = min(req.OffsetBytes, size)
	if pos < size {
		// A character has at most four bytes: three before the position decide whether it is inside one.
		from := max(pos-3, 0)
		around, err := readRange(ctx, c, from, min(size-from, 7))
		if err != nil {
			return 0, 0, err
		}
		pos = from + int64(characterStart(around, int(pos-from)))
	}
	if size > MaxCountBytes {
		return pos, -1, nil
	}
	err = scan(ctx, c, pos, func(block []byte) bool {
		line += int64(bytes.Count(block, newline))
		return true
	})
	return pos, line, err
}

// seekLine finds the first byte of a line; at the end of the file, the size and the number of lines.
func seekLine(ctx context.Context, c Content, want int64) (pos, line int64, err error) {
	if want == 0 {
		return 0, 0, nil
	}
	var read int64
	endsOpen := false
	err = scan(ctx, c, c.Size(), func(block []byte) bool {
		rest := block
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			rest = rest[i+1:]
			if line++; line == want {
				pos = read + int64(len(block)-len(rest))
				return false
			}
		}
		read += int64(len(block))
		pos = read
		endsOpen = block[len(block)-1] != '\n'
		return true
	})
	if line < want && endsOpen {
		line++
	}
	return pos, line, err
}

func totalLines(ctx context.Context, c Content) (int64, error) {
	if c.Size() > MaxCountBytes {
		return -1, nil
	}
	var lines int64
	var last byte = '\n'
	err := scan(ctx, c, c.Size(), func(block []byte) bool {
		lines += int64(bytes.Count(block, newline))
		last = block[len(block)-1]
		return true
	})
	if last != '\n' {
		lines++
	}
	return lines, err
}

// cutLines returns the end of the last whole line among the first limit ones, and how many whole lines that are.
func cutLines(data []byte, limit int64) (end int, whole int64) {
	for whole < limit {
		i := bytes.IndexByte(data[end:], '\n')
		if i < 0 {
			break
		}
		end += i + 1
		whole++
	}
	return end, whole
}

// cutCharacter drops an unfinished character at the end, unless nothing else is there.
func cutCharacter(data []byte) []byte {
	for back := 1; back <= min(utf8.UTFMax, len(data)); back++ {
		if at := len(data) - back; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) && at > 0 {
				return data[:at]
			}
			return data
		}
	}
	return data
}

// characterStart moves a position inside a character to its start.
func characterStart(data []byte, at int) int {
	for back := 0; back <= min(utf8.UTFMax-1, at); back++ {
		if utf8.RuneStart(data[at-back]) {
			if r, n := utf8.DecodeRune(data[at-back:]); r != utf8.RuneError && n > back {
				return at - back
			}
			return at
		}
	}
	return at
}

// probeBinary says whether the first 8 KiB hold a NUL.
func probeBinary(ctx context.Context, c Content) (bool, error) {
	head, err := readRange(ctx, c, 0, min(c.Size(), BinaryProbeBytes))
	return IsBinary(head), err
}

// IsBinary says whether content that begins with head is binary: a NUL in its first 8 KiB.
func IsBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), BinaryProbeBytes)], 0) >= 0
}

// scan passes the first n bytes of c to f in blocks, until f returns false. Blocks are never empty and not kept.
func scan(ctx context.Context, c Content, n int64, f func(block []byte) bool) error {
	buf := make([]byte, min(n, scanBytes))
	for pos := int64(0); pos < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := buf[:min(int64(len(buf)), n-pos)]
		if err := readFull(c, block, pos); err != nil {
			return err
		}
		if !f(block) {
			return nil
		}
		pos += int64(len(block))
	}
	return nil
}

func readRange(ctx context.Context, c Content, pos, n int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	buf := make([]byte, n)
	if n == 0 {
		return buf, nil
	}
	return buf, readFull(c, buf, pos)
}

// readFull fills buf. Content has a known size, so an early end is an error.
func readFull(c Content, buf []byte, pos int64) error {
	n, err := c.ReadAt(buf, pos)
	if n == len(buf) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Bytes is [Content] in memory.
type Bytes []byte

// ReadAt implements [io.ReaderAt].
func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Size implements [Content].
func (b Bytes) Size() int64 { return int64(len(b)) }
