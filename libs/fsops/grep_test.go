package fsops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
)

func grepAll(t testing.TB, req GrepRequest, content string) ([]Hit, FileResult) {
	t.Helper()
	g, err := CompileGrep(req)
	if err != nil {
		t.Fatal(err)
	}
	var hits []Hit
	result, err := g.Search(context.Background(), strings.NewReader(content), func(h Hit) error {
		hits = append(hits, h)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits, result
}

func TestGrep(t *testing.T) {
	tests := []struct {
		name    string
		req     GrepRequest
		content string
		want    string // line:column+length:text, one a line
	}{
		{"literal", GrepRequest{Pattern: "b"}, "a\nxb\nc\nb", "2:2+1:xb\n4:1+1:b\n"},
		{"literal with special characters", GrepRequest{Pattern: "a[0].b("}, "a[0].b(x)\na0.b(", "1:1+7:a[0].b(x)\n"},
		{"a dot is a dot", GrepRequest{Pattern: "a.b"}, "axb\na.b", "2:1+3:a.b\n"},
		{"regular expression", GrepRequest{Pattern: `f\w+\(`, Regex: true}, "func x\nfoo(1)\n", "2:1+4:foo(1)\n"},
		{"anchors", GrepRequest{Pattern: `^b$`, Regex: true}, "ab\r\nb\r\n", "2:1+1:b\n"},
		{"no match over a line break", GrepRequest{Pattern: `a\sb`, Regex: true}, "a\nb\na b", "3:1+3:a b\n"},
		{"literal with a line break", GrepRequest{Pattern: "a\nb"}, "a\nb\n", ""},
		{"ignore case", GrepRequest{Pattern: "Needle", IgnoreCase: true}, "x\nneedle\nNEEDLE\nnedle", "2:1+6:needle\n3:1+6:NEEDLE\n"},
		{"ignore case folds Unicode", GrepRequest{Pattern: "kelvin's", IgnoreCase: true}, "\u212Aelvin'\u017F", "1:1+11:\u212Aelvin'\u017F\n"},
		{"ignore case beyond ASCII", GrepRequest{Pattern: "ÜBER", IgnoreCase: true}, "über", "1:1+5:über\n"},
		{"NFC pattern in NFD text", GrepRequest{Pattern: "결과"}, norm.NFD.String("x 결과 y"), "1:3+15:" + norm.NFD.String("x 결과 y") + "\n"},
		{"NFD pattern in NFC text", GrepRequest{Pattern: norm.NFD.String("결과")}, "x 결과 y", "1:3+6:x 결과 y\n"},
		{"crlf", GrepRequest{Pattern: "b"}, "a\r\nb\r\n", "2:1+1:b\n"},
		{"empty lines", GrepRequest{Pattern: "^$", Regex: true}, "a\n\n\nb\n", "2:1+0:\n3:1+0:\n"},
		{"wrong bytes", GrepRequest{Pattern: "x"}, "\xffx\n", "1:2+1:\uFFFDx\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hits, _ := grepAll(t, tt.req, tt.content)
			var got strings.Builder
			for _, h := range hits {
				fmt.Fprintf(&got, "%d:%d+%d:%s\n", h.Line, h.Column, h.Length, h.Text)
			}
			if got.String() != tt.want {
				t.Errorf("got\n%q\nwant\n%q", got.String(), tt.want)
			}
		})
	}
}

func TestGrepContext(t *testing.T) {
	hits, _ := grepAll(t, GrepRequest{Pattern: "x", Before: 2, After: 1}, "1\n2\n3\nx4\nx5\n6\n7\nx8")
	want := []Hit{
		{Line: 4, Column: 1, Length: 1, Text: "x4", Before: []string{"2", "3"}, After: []string{"x5"}},
		{Line: 5, Column: 1, Length: 1, Text: "x5", Before: []string{"3", "x4"}, After: []string{"6"}},
		{Line: 8, Column: 1, Length: 1, Text: "x8", Before: []string{"6", "7"}},
	}
	if diff := cmp.Diff(want, hits); diff != "" {
		t.Error(diff)
	}
}

func TestGrepInvalid(t *testing.T) {
	_, err := CompileGrep(GrepRequest{Pattern: "a(", Regex: true})
	var e *errdefs.Error
	if !errors.As(err, &e) || e.Reason != ReasonPatternInvalid {
		t.Errorf("got %v", err)
	}
}

func TestGrepBinary(t *testing.T) {
	hits, result := grepAll(t, GrepRequest{Pattern: "needle"}, "needle\x00needle")
	if len(hits) != 0 || !result.Binary {
		t.Errorf("hits %v, %+v", hits, result)
	}
}

// A pattern on which other engines take for ever.
func TestGrepTime(t *testing.T) {
	start := time.Now()
	grepAll(t, GrepRequest{Pattern: "(a+)+$", Regex: true}, strings.Repeat("a", 50_000)+"!")
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestGrepLongLines(t *testing.T) {
	for _, size := range []int{grepBlockBytes - 3, maxLineBytes - 3, maxLineBytes + 100, 2*maxLineBytes + 100} {
		line := strings.Repeat("é", size/2) + "needle" + strings.Repeat("z", 70_000)
		content := "first\n" + line + "\nlast needle\n"
		hits, result := grepAll(t, GrepRequest{Pattern: "needle", Before: 1, After: 1}, content)
		if len(hits) != 2 || hits[0].Line != 2 || hits[1].Line != 3 {
			t.Fatalf("size %d: %d hits, %+v", size, len(hits), result)
		}
		if want := int64(strings.Index(line, "needle") + 1); hits[0].Column != want {
			t.Errorf("size %d: column %d, want %d", size, hits[0].Column, want)
		}
		if !hits[0].TextTruncated || len([]rune(hits[0].Text)) != MaxMatchText {
			t.Errorf("size %d: text of %d characters, truncated %v", size, len([]rune(hits[0].Text)), hits[0].TextTruncated)
		}
		if diff := cmp.Diff([]string{"last needle"}, hits[0].After); diff != "" {
			t.Errorf("size %d: %s", size, diff)
		}
		if (result.LongLine == 2) != (len(line) >= maxLineBytes) {
			t.Errorf("size %d: long line %d", size, result.LongLine)
		}
	}
}

func TestGrepStops(t *testing.T) {
	g, err := CompileGrep(GrepRequest{Pattern: "x"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := g.Search(context.Background(), strings.NewReader("x\nx\nx\n"), func(h Hit) error {
		if h.Line == 2 {
			return ErrStop
		}
		return nil
	})
	if err != nil || !result.Stopped {
		t.Errorf("got %+v, %v", result, err)
	}
	broken := errors.New("broken disk")
	if _, err = g.Search(context.Background(), iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = g.Search(ctx, strings.NewReader("x"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
