package fsops

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
)

// naive searches without any of the short cuts: line by line, each in NFC where the request asks for it.
func naive(req GrepRequest, content []byte) []string {
	if IsBinary(content) {
		return nil
	}
	content = bytes.TrimPrefix(content, []byte("\uFEFF"))
	compose := req.Regex || !isASCII(req.Pattern)
	pattern := norm.NFC.String(req.Pattern)
	if !req.Regex {
		pattern = regexp.QuoteMeta(pattern)
	}
	if req.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re := regexp.MustCompile(pattern)
	var out []string
	lines := bytes.Split(content, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		line = bytes.TrimSuffix(line, []byte("\r"))
		matched, column := line, "?"
		if compose {
			matched = norm.NFC.Bytes(line)
		}
		at := re.FindIndex(matched)
		if !req.Regex && !req.IgnoreCase { // a literal is compared byte for byte, also where bytes are wrong
			at = nil
			if n := bytes.Index(matched, norm.NFC.Bytes([]byte(req.Pattern))); n >= 0 {
				at = []int{n, n + len(norm.NFC.String(req.Pattern))}
			}
		}
		if at == nil {
			continue
		}
		if bytes.Equal(matched, line) {
			column = fmt.Sprintf("%d+%d", at[0]+1, at[1]-at[0])
		}
		out = append(out, fmt.Sprintf("%d:%s", i+1, column))
	}
	return out
}

func found(t testing.TB, g *Grep, req GrepRequest, content []byte, inPieces bool) []string {
	var out []string
	add := func(h Hit) error {
		column := "?"
		lines := bytes.Split(bytes.TrimPrefix(content, []byte("\uFEFF")), []byte("\n"))
		line := bytes.TrimSuffix(lines[h.Line-1], []byte("\r"))
		if compose := req.Regex || !isASCII(req.Pattern); !compose || bytes.Equal(norm.NFC.Bytes(line), line) {
			column = fmt.Sprintf("%d+%d", h.Column, h.Length)
		}
		out = append(out, fmt.Sprintf("%d:%s", h.Line, column))
		return nil
	}
	var err error
	if inPieces {
		_, err = g.Search(context.Background(), iotest.OneByteReader(bytes.NewReader(content)), add)
	} else {
		_, err = g.SearchBytes(content, add)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzGrep compares the engine, with all its short cuts, with [naive].
func FuzzGrep(f *testing.F) {
	text := "func main() {\r\n\tneedle Needle NEEDLE\n" + strings.Repeat("some filler text here, zz\n", 5) + "quux\n\nÜber über K ſ \u212A \u017Fs e\u0301 é\n2024-01-31 id_99\xff\nlast needle"
	for _, pattern := range []string{"needle", "quux", "e", "é", "ß|über", "sk", "Kk", `\bmain\b`, `^$`, `^\s+\w`, `[0-9]{4}-\d\d`, `(foo|bar|needle) N`, `x*`, `a?b?c?$`, "K", "`;", `e.$`,
		`[^a-z]$`, `(?m)^last`, `\Alast`, `needle\z`, `(a|b|)*zz`, `\W\B`, `[Nn]eedle`, "[k\u212A]", `.`, `\x{FFFD}`, "\ufffd", "filler", "z", "결과", "日本", "ffi"} {
		for flags := range uint8(4) {
			f.Add(pattern, []byte(text), flags)
			f.Add(pattern, []byte("\uFEFF"+norm.NFD.String(text)), flags)
		}
	}
	f.Add("b", []byte("a\nb\r\nab"), uint8(2))
	f.Add("k", []byte("\n\nK\n"), uint8(3))
	f.Fuzz(func(t *testing.T, pattern string, content []byte, flags uint8) {
		req := GrepRequest{Pattern: pattern, Regex: flags&1 != 0, IgnoreCase: flags&2 != 0}
		g, err := CompileGrep(req)
		if err != nil || pattern == "" || len(pattern) > 200 || len(content) > 10_000 {
			return
		}
		want := naive(req, content)
		for _, inPieces := range []bool{false, true} {
			if diff := cmp.Diff(want, found(t, g, req, content, inPieces)); diff != "" {
				t.Fatalf("%+v in pieces %v (-naive +engine):\n%s", req, inPieces, diff)
			}
		}
		needsHold(t, g, req, content)
	})
}

// needsHold checks that a line that matches holds what the pattern is said to need, as the index sees it.
func needsHold(t *testing.T, g *Grep, req GrepRequest, content []byte) {
	fold := func(text string) string { return strings.Map(FoldRune, text) }
	for _, hit := range naive(req, content) {
		var line int
		fmt.Sscanf(hit, "%d:", &line)
		raw := string(bytes.Split(bytes.TrimPrefix(content, []byte("\uFEFF")), []byte("\n"))[line-1])
		for _, set := range g.Needs() {
			held := false
			for _, text := range set {
				held = held || strings.Contains(fold(raw), fold(text)) || strings.Contains(fold(norm.NFC.String(raw)), fold(text))
			}
			if !held {
				t.Fatalf("%+v: line %q matches and holds none of %q", req, raw, set)
			}
		}
	}
}

func TestNeeds(t *testing.T) {
	tests := []struct {
		pattern    string
		ignoreCase bool
		want       Needs
	}{
		{`foo.*bar`, false, Needs{{"foo"}, {"bar"}}},
		{`(foo|bar)baz`, false, Needs{{"foobaz", "barbaz"}}},
		{`(foo.*x|bar)+`, false, Needs{{"foo", "bar"}}},
		{`[Tt]odo`, false, Needs{{"todo"}}}, // a class of both cases is a letter of either
		{`Todo\d+`, true, Needs{{"todo"}}},
		{`colou?r`, false, Needs{{"color", "colour"}}},
		{`(abc)*`, false, nil},
		{`\d{4}-\d{2}`, false, Needs{{"-"}}},
		{`a|\w+`, false, nil},
	}
	for _, tt := range tests {
		g, err := CompileGrep(GrepRequest{Pattern: tt.pattern, Regex: true, IgnoreCase: tt.ignoreCase})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, g.Needs(), cmp.Transformer("sorted", func(in []string) map[string]bool {
			out := map[string]bool{}
			for _, text := range in {
				out[text] = true
			}
			return out
		})); diff != "" {
			t.Errorf("%s: %s", tt.pattern, diff)
		}
	}
}

func BenchmarkGrepBytes(b *testing.B) {
	line := "\tif err := s.handler.process(ctx, request.Items[i]); err != nil { // see the notes below\n"
	data := []byte(strings.Repeat(line, 200) + "the needle is here\n")
	for _, bb := range []struct {
		name string
		req  GrepRequest
	}{
		{"literal", GrepRequest{Pattern: "needle"}},
		{"ignore case", GrepRequest{Pattern: "NEEDLE", IgnoreCase: true}},
		{"alternation", GrepRequest{Pattern: "needle|haystack|pitchfork", Regex: true}},
		{"class", GrepRequest{Pattern: `[A-Z]{3}_[0-9]+`, Regex: true}},
		{"unicode", GrepRequest{Pattern: "über"}},
	} {
		g, err := CompileGrep(bb.req)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := g.SearchBytes(data, func(Hit) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
