package supervisor

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// TestLogAgainstPlainBytes writes random pieces and compares everything that can be read with what was written.
func TestLogAgainstPlainBytes(t *testing.T) {
	for _, limit := range []int64{1 << 20, 4 << 20, 64 << 20} {
		l := newLog(t.TempDir(), limit)
		var all []byte
		var streams []byte
		rnd := rand.New(rand.NewPCG(1, uint64(limit)))
		for range 3000 {
			p := make([]byte, rnd.IntN(4000))
			for i := range p {
				p[i] = byte(rnd.IntN(256))
			}
			stream := 1 + rnd.IntN(2)
			l.append(stream, p)
			all = append(all, p...)
			streams = append(streams, bytes.Repeat([]byte{byte(stream)}, len(p))...)
		}
		l.close()
		var offset, kept int64
		buf := make([]byte, 5000)
		for {
			stream, at, n, _, end := l.read(offset, buf)
			if n == 0 {
				if !end {
					t.Fatal("nothing to read, and no end")
				}
				break
			}
			if at < offset || !bytes.Equal(buf[:n], all[at:at+int64(n)]) {
				t.Fatalf("limit %d: wrong bytes at %d", limit, at)
			}
			if bytes.Count(streams[at:at+int64(n)], []byte{byte(stream)}) != n {
				t.Fatalf("limit %d: wrong stream at %d", limit, at)
			}
			offset, kept = at+int64(n), kept+int64(n)
		}
		if offset != int64(len(all)) {
			t.Errorf("limit %d: the end is at %d, %d bytes were written", limit, offset, len(all))
		}
		if kept > limit+memoryBytes || kept < min(limit, int64(len(all)))*8/10 {
			t.Errorf("limit %d: %d of %d bytes are kept", limit, kept, len(all))
		}
		out, errs := l.totals()
		if out+errs != int64(len(all)) {
			t.Errorf("limit %d: %d bytes are counted", limit, out+errs)
		}
		l.discard()
	}
}

// TestLogWithoutDisk keeps counting and never blocks when nothing can be kept.
func TestLogWithoutDisk(t *testing.T) {
	l := newLog("/nonexistent", 1<<20)
	chunk := make([]byte, 50_000)
	for range 10 {
		l.append(sandbox.Stdout, chunk)
	}
	l.close()
	_, at, n, _, _ := l.read(0, make([]byte, 100_000))
	if at != 0 || n != memoryBytes {
		t.Errorf("what fits into memory: %d bytes at %d", n, at)
	}
	if _, _, n, _, end := l.read(memoryBytes, make([]byte, 10)); n != 0 || !end {
		t.Errorf("the rest: %d bytes, end %v", n, end)
	}
	if out, _ := l.totals(); out != 500_000 {
		t.Errorf("%d bytes are counted", out)
	}
}
