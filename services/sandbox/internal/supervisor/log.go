package supervisor

import (
	"os"
	"sync"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

const (
	// memoryBytes of output are kept in memory before the first file is made: most commands say little, and a file costs more than they do.
	memoryBytes = 64 << 10
	// headSegments and maxSegments divide a log: when it is full, segments are dropped from behind the head, so the beginning and the end stay.
	headSegments = 4
	maxSegments  = 16
	// maxPieces bounds the index of a segment, for commands that write single bytes to both streams in turn.
	maxPieces = 1 << 15
)

// outputLog keeps the output of one exec in the order of arrival. Files have no name: they vanish with the supervisor.
type outputLog struct {
	dir      string
	segBytes int64

	mu       sync.Mutex
	segments []*segment
	end      int64
	counts   [3]int64
	closed   bool
	changed  chan struct{}
}

// segment is a run of output without a gap.
type segment struct {
	start, size int64
	mem         []byte
	file        *os.File
	pieces      []piece
}

// piece is output of one stream inside a segment.
type piece struct {
	at     int64
	stream int
}

func newLog(dir string, maxBytes int64) *outputLog {
	return &outputLog{dir: dir, segBytes: max(maxBytes/maxSegments, memoryBytes), changed: make(chan struct{})}
}

// append keeps p. It never fails: what cannot be kept is counted and missing.
func (l *outputLog) append(stream int, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[stream] += int64(len(p))
	if l.closed {
		return
	}
	for len(p) > 0 {
		seg := l.current(stream)
		n := min(int64(len(p)), l.segBytes-seg.size)
		if seg.write(l.dir, p[:n]) {
			if k := len(seg.pieces); k == 0 || seg.pieces[k-1].stream != stream {
				seg.pieces = append(seg.pieces, piece{seg.size, stream})
			}
			seg.size += n
		} else {
			// A gap: later output needs a segment of its own.
			l.segments = append(l.segments, &segment{start: l.end + n})
			l.trim()
		}
		l.end += n
		p = p[n:]
	}
	l.wake()
}

// current returns the segment to append to, making a new one when the last is full.
func (l *outputLog) current(stream int) *segment {
	if k := len(l.segments); k > 0 {
		seg := l.segments[k-1]
		sameStream := len(seg.pieces) > 0 && seg.pieces[len(seg.pieces)-1].stream == stream
		if seg.size < l.segBytes && (sameStream || len(seg.pieces) < maxPieces) {
			return seg
		}
	}
	l.segments = append(l.segments, &segment{start: l.end})
	l.trim()
	return l.segments[len(l.segments)-1]
}

func (l *outputLog) trim() {
	if len(l.segments) <= maxSegments {
		return
	}
	l.segments[headSegments].drop()
	l.segments = append(l.segments[:headSegments], l.segments[headSegments+1:]...)
}

// write appends to the segment, moving it to a file when it outgrows memory.
func (s *segment) write(dir string, p []byte) bool {
	if s.file == nil && s.start == 0 && len(s.mem)+len(p) <= memoryBytes {
		s.mem = append(s.mem, p...)
		return true
	}
	if s.file == nil {
		f, err := os.CreateTemp(dir, "log-*")
		if err != nil {
			return false
		}
		_ = os.Remove(f.Name())
		if _, err := f.Write(s.mem); err != nil {
			_ = f.Close()
			return false
		}
		s.file, s.mem = f, nil
	}
	_, err := s.file.WriteAt(p, s.size)
	return err == nil
}

func (s *segment) drop() {
	if s.file != nil {
		_ = s.file.Close()
	}
	s.mem = nil
}

// read fills buf with output of one stream at or after offset. n == 0 means that there is none yet; then wait is closed on the next change, and end
// says that there will be none.
func (l *outputLog) read(offset int64, buf []byte) (stream int, at int64, n int, wait <-chan struct{}, end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range l.segments {
		if offset >= seg.start+seg.size || seg.size == 0 {
			continue
		}
		at = max(offset, seg.start)
		rel := at - seg.start
		stop := seg.size
		for _, p := range seg.pieces {
			if p.at <= rel {
				stream = p.stream
			} else {
				stop = p.at
				break
			}
		}
		want := buf[:min(int64(len(buf)), stop-rel)]
		if seg.file == nil {
			n = copy(want, seg.mem[rel:])
		} else {
			n, _ = seg.file.ReadAt(want, rel)
		}
		if n > 0 {
			return stream, at, n, nil, false
		}
	}
	return 0, l.end, 0, l.changed, l.closed
}

// close says that no more output comes.
func (l *outputLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

// discard frees the kept output. Readers see a gap.
func (l *outputLog) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		s.drop()
	}
	l.segments = nil
}

// kept counts the bytes that can still be read.
func (l *outputLog) kept() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		n += s.size
	}
	return n
}

func (l *outputLog) totals() (stdout, stderr int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[sandbox.Stdout], l.counts[sandbox.Stderr]
}

func (l *outputLog) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}
