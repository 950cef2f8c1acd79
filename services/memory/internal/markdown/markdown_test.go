package markdown

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	content := "# Memory\r\n\r\nintro line one\nintro line two\n\n## People\n\n- Ana likes tea\n  and cake\n- Ben\n  - nested\n1. first\n\n```go\n# not a heading\n```\n" +
		"<!-- hidden\nstill hidden -->\n---\n### Deep\n* star"
	want := []Unit{
		{Text: "intro line one\nintro line two", Line: 3, EndLine: 4, Offset: 12, Headings: []string{"Memory"}},
		{Text: "Ana likes tea\nand cake", Item: true, Line: 8, EndLine: 9, Offset: 54, Headings: []string{"Memory", "People"}},
		{Text: "Ben", Item: true, Line: 10, EndLine: 10, Offset: 81, Headings: []string{"Memory", "People"}},
		{Text: "nested", Item: true, Line: 11, EndLine: 11, Offset: 87, Headings: []string{"Memory", "People"}},
		{Text: "first", Item: true, Line: 12, EndLine: 12, Offset: 98, Headings: []string{"Memory", "People"}},
		{Text: "```go\n# not a heading\n```", Line: 14, EndLine: 16, Offset: 108, Headings: []string{"Memory", "People"}},
		{Text: "star", Item: true, Line: 21, EndLine: 21, Offset: 176, Headings: []string{"Memory", "People", "Deep"}},
	}
	got := Parse(content)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, u := range got {
		if content[u.Offset-1] != '\n' {
			t.Errorf("%q: offset %d is no start of a line", u.Text, u.Offset)
		}
	}
}

func TestItemIsReadBack(t *testing.T) {
	for _, s := range []string{
		"plain", "two\nlines", "- looks like an item", "a\n- b\n# c\n> d\n1. e", "\\- escaped", "# heading", "```\ncode\n```", "<!-- comment -->", "| table |",
		"---", "***", "\\", "\\\\x", "日本語\n- 箇条書き", "a\n\n\nb", "  padded  \r\n\ttabbed", "1) one", "+1 for this", "C++", "*bold* text",
	} {
		s := Normalize(s)
		got := Parse("text before\n" + Item(s) + Item("after"))
		if len(got) != 3 || got[1].Text != s || !got[1].Item {
			t.Errorf("%q is read back as %+v", s, got)
		}
	}
}

func FuzzItem(f *testing.F) {
	f.Add("a\n- b")
	f.Fuzz(func(t *testing.T, s string) {
		s = Normalize(s)
		if s == "" {
			return
		}
		if got := Parse(Item(s)); len(got) != 1 || got[0].Text != s {
			t.Errorf("%q is read back as %+v", s, got)
		}
	})
}
