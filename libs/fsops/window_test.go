package fsops

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func read(t testing.TB, content string, req WindowRequest) Window {
	t.Helper()
	w, err := ReadText(context.Background(), Bytes(content), req)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestReadText(t *testing.T) {
	forty := strings.Repeat("line\n", 40)
	tests := []struct {
		name, content string
		req           WindowRequest
		data          string
		start, count  int64
		next, total   int64
		more          bool
	}{
		{name: "whole", content: "a\nb\n", data: "a\nb\n", count: 2, next: 2, total: 2},
		{name: "no final newline", content: "a\nb", data: "a\nb", count: 2, next: 2, total: 2},
		{name: "empty", content: "", data: ""},
		{name: "limit", content: "a\nb\nc\n", req: WindowRequest{LimitLines: 2}, data: "a\nb\n", count: 2, next: 2, total: 3, more: true},
		{name: "offset", content: "a\nb\nc\n", req: WindowRequest{OffsetLines: 1, LimitLines: 1}, data: "b\n", start: 1, count: 1, next: 2, total: 3, more: true},
		{name: "last line", content: forty, req: WindowRequest{OffsetLines: 39}, data: "line\n", start: 39, count: 1, next: 40, total: 40},
		{name: "at the end", content: forty, req: WindowRequest{OffsetLines: 40}, start: 40, next: 40, total: 40},
		{name: "one past the end", content: forty, req: WindowRequest{OffsetLines: 41}, start: 40, next: 40, total: 40},
		{name: "far past the end", content: forty, req: WindowRequest{OffsetLines: 4000}, start: 40, next: 40, total: 40},
		{name: "past the end of an open line", content: "a\nb", req: WindowRequest{OffsetLines: 2}, start: 2, next: 2, total: 2},
		{name: "crlf kept", content: "a\r\nb\r\n", req: WindowRequest{LimitLines: 1}, data: "a\r\n", count: 1, next: 1, total: 2, more: true},
		{name: "huge limit", content: "a\nb\n", req: WindowRequest{OffsetLines: 1, LimitLines: 1<<63 - 1}, data: "b\n", start: 1, count: 1, next: 2, total: 2},
		{name: "cut before a half line", content: "abc\ndefgh\n", req: WindowRequest{LimitBytes: 6}, data: "abc\n", count: 1, next: 1, total: 2, more: true},
		{name: "offset in bytes", content: "abc\ndef\n", req: WindowRequest{OffsetBytes: 5}, data: "ef\n", start: 1, count: 1, next: 2, total: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := read(t, tt.content, tt.req)
			got := fmt.Sprint(string(w.Data), w.StartLine, w.LineCount, w.NextLine, w.TotalLines, w.More, w.PartialLine)
			want := fmt.Sprint(tt.data, tt.start, tt.count, tt.next, tt.total, tt.more, false)
			if got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// A line of six million bytes is read in bounded pages that break no character and join to the original.
func TestReadTextLongLine(t *testing.T) {
	content := `{"k":"` + strings.Repeat("é", 3_000_000) + `"}`
	var joined strings.Builder
	var pos int64
	for pages := 0; ; pages++ {
		w := read(t, content, WindowRequest{OffsetBytes: pos, LimitLines: 1})
		if len(w.Data) > DefaultWindowBytes || !utf8.Valid(w.Data) {
			t.Fatalf("page %d: %d bytes, valid %v", pages, len(w.Data), utf8.Valid(w.Data))
		}
		joined.Write(w.Data)
		if !w.More {
			if w.PartialLine {
				t.Error("the last page ends the line")
			}
			break
		}
		if !w.PartialLine || w.NextByte <= pos {
			t.Fatalf("page %d: partial %v, next %d after %d", pages, w.PartialLine, w.NextByte, pos)
		}
		pos = w.NextByte
	}
	if joined.String() != content {
		t.Error("the pages don't join to the content")
	}
}

// Default pages over 3,000 lines: the second begins at the first line not shown.
func TestReadTextPages(t *testing.T) {
	content := strings.Repeat(strings.Repeat("x", 69)+"\n", 3000)
	first := read(t, content, WindowRequest{})
	if first.LineCount != 2000 || !first.More || first.NextLine != 2000 {
		t.Fatalf("first page: %d lines, more %v, next %d", first.LineCount, first.More, first.NextLine)
	}
	second := read(t, content, WindowRequest{OffsetLines: first.NextLine})
	if second.LineCount != 1000 || second.More || second.StartByte != first.NextByte {
		t.Errorf("second page: %d lines, more %v, start %d", second.LineCount, second.More, second.StartByte)
	}
}

func TestReadTextReplaced(t *testing.T) {
	w := read(t, "a\xffb", WindowRequest{})
	if text, replaced := w.Text(); text != "a\uFFFDb" || !replaced {
		t.Errorf("got %q, %v", text, replaced)
	}
	if w := read(t, "é", WindowRequest{OffsetBytes: 1}); string(w.Data) != "é" {
		t.Errorf("a position inside a character moves to its start, got %q", w.Data)
	}
	if w := read(t, "a\x00b", WindowRequest{}); !w.Binary {
		t.Error("a NUL makes a file binary")
	}
}

func TestReadBytes(t *testing.T) {
	all := bytes.Repeat([]byte{0, 255, 200, 10}, 100)
	w, err := ReadBytes(context.Background(), Bytes(all), WindowRequest{OffsetBytes: 3, LimitBytes: 5})
	if err != nil || !bytes.Equal(w.Data, all[3:8]) || !w.More || w.NextByte != 8 || !w.Binary {
		t.Errorf("got %+v, %v", w, err)
	}
	w, err = ReadBytes(context.Background(), Bytes(all), WindowRequest{OffsetBytes: 4000})
	if err != nil || len(w.Data) != 0 || w.More || w.NextByte != 400 {
		t.Errorf("past the end: %+v, %v", w, err)
	}
}

func TestReadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ReadText(ctx, Bytes("a"), WindowRequest{}); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// Following windows from any start with any limits gives back the content.
func FuzzReadText(f *testing.F) {
	f.Add([]byte("a\nbé\r\n\xff\n"), int64(1), int64(3))
	f.Fuzz(func(t *testing.T, content []byte, lines, limit int64) {
		if limit < 1 || len(content) > 1<<12 {
			return
		}
		var joined []byte
		for pos := int64(0); ; {
			w, err := ReadText(context.Background(), Bytes(content), WindowRequest{OffsetBytes: pos, LimitLines: lines, LimitBytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			joined = append(joined, w.Data...)
			if !w.More {
				break
			}
			if w.NextByte <= pos || w.NextByte != w.StartByte+int64(len(w.Data)) {
				t.Fatalf("no progress at %d: %+v", pos, w)
			}
			pos = w.NextByte
		}
		if !bytes.Equal(joined, content) {
			t.Fatalf("joined to %q, want %q", joined, content)
		}
	})
}
