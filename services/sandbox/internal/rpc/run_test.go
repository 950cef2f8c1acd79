package rpc

import (
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

func TestCapture(t *testing.T) {
	piece := func(at int64, s string) *sandbox.Output { return &sandbox.Output{Offset: at, Data: []byte(s)} }
	for _, c := range []struct {
		name         string
		most         int64
		pieces       []*sandbox.Output
		head, tail   string
		omitted, at  int64
		textContains string
	}{
		{"nothing", 10, nil, "", "", 0, 0, ""},
		{"fits", 10, []*sandbox.Output{piece(0, "0123456789")}, "0123456789", "", 0, 5, "0123456789"},
		{"one over", 10, []*sandbox.Output{piece(0, "0123456789a")}, "01234", "6789a", 1, 5, "1 bytes left out"},
		{"many small", 4, []*sandbox.Output{piece(0, "a"), piece(1, "b"), piece(2, "c"), piece(3, "d"), piece(4, "e"), piece(5, "f"), piece(6, "g")}, "ab", "fg", 3, 2, "3 bytes left out"},
		{"a gap in the log", 10, []*sandbox.Output{piece(0, "ab"), {Offset: 100, Skipped: 98, Data: []byte("yz")}}, "ab", "yz", 98, 2, "98 bytes left out"},
		{"a parted character", 6, []*sandbox.Output{piece(0, "漢漢漢漢")}, "漢", "漢", 6, 3, "漢\n[… 6 bytes"},
		{"wrong bytes", 10, []*sandbox.Output{piece(0, "\xff\xfe")}, "\xff\xfe", "", 0, 0, "\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCapture(c.most)
			for _, p := range c.pieces {
				k.add(p)
			}
			got := k.result()
			if string(got.GetHead()) != c.head || string(got.GetTail()) != c.tail || got.GetOmittedBytes() != c.omitted || !strings.Contains(got.GetText(), c.textContains) {
				t.Errorf("got %q %q %d %q", got.GetHead(), got.GetTail(), got.GetOmittedBytes(), got.GetText())
			}
			if c.omitted > 0 && k.firstOmitted != c.at {
				t.Errorf("the first byte left out is at %d, want %d", k.firstOmitted, c.at)
			}
		})
	}
}
