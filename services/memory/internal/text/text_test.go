package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestFold(t *testing.T) {
	for in, want := range map[string]string{
		"Plain ASCII": "plain ascii", "Ölçü ÉTÉ": "olcu ete", "e\u0301": "e", "Straße": "strasse", "ＡＢＣ１２": "abc12", "が": "が", "か\u3099": "が", "ｶﾞ": "ガ",
		"Ёлка": "елка", "Σίσυφος": "σισυφοσ", "हिन्दी": "हिन्दी", "Ł": "l", "ﬁ": "fi",
	} {
		if got := Fold(in); got != want {
			t.Errorf("%q folds to %q, want %q", in, got, want)
		}
	}
}

func TestAnalyze(t *testing.T) {
	for in, want := range map[string]Terms{
		"The servers": {Words: []string{"the", "servers"}, Stems: []string{"en:the", "en:server"}},
		"大阪":          {Singles: []string{"大", "阪"}, Pairs: []string{"大阪", border}},
		"부산으로":        {Words: []string{"부산으로"}, Singles: []string{"부", "산", "으", "로"}, Pairs: []string{"부산", "산으", "으로", border}},
		"C++":         {Words: []string{"c"}, Code: []string{"c++"}},
		"(src/core),": {Words: []string{"src", "core"}, Stems: []string{"en:src", "en:core"}, Code: []string{"src/core"}},
		"parseHTTP":   {Words: []string{"parsehttp"}, Stems: []string{"en:parsehttp"}, Code: []string{"parse", "http"}},
		"l'hôtel":     {Words: []string{"hotel"}, Stems: []string{"en:hotel"}},
		"Ana's don't": {Words: []string{"ana", "dont"}, Stems: []string{"en:ana", "en:dont"}},
		"GPT4模型":      {Words: []string{"gpt4"}, Stems: []string{"en:gpt4"}, Singles: []string{"模", "型"}, Pairs: []string{"模型", border}},
		"":            {},
	} {
		if diff := cmp.Diff(want, Analyze(in)); diff != "" {
			t.Errorf("%q: -want +got\n%s", in, diff)
		}
	}
}

func TestStopWords(t *testing.T) {
	for query, want := range map[string]string{
		"what is my badge number?":   "badge number",
		"wo ist der Bahnhof":         "bahnhof",
		"door code":                  "door code",
		"die war man":                "die war man",
		"to be or not to be":         "to be or not to be",
		"¿cuál es el código del bar": "codigo bar",
	} {
		var got []string
		for _, term := range ParseQuery(query).Informative() {
			got = append(got, term.Word)
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("%q asks for %q, want %q", query, joined, want)
		}
	}
}

func TestQueryIsBounded(t *testing.T) {
	for name, s := range map[string]string{
		"words": strings.Repeat("word ", 5000), "characters": strings.Repeat("漢字", 5000), "paths": strings.Repeat("a/b ", 5000), "one chunk": strings.Repeat("a+b", 5000),
	} {
		q := ParseQuery(s)
		terms := len(q.Code)
		for _, term := range q.Terms {
			terms += 1 + len(term.Pairs)
		}
		if !q.Cut || terms > 4*MaxQueryTerms {
			t.Errorf("%s: %d terms, cut %v", name, terms, q.Cut)
		}
	}
}

func TestSnippet(t *testing.T) {
	s := strings.Repeat("世界", 100) + "falcon" + strings.Repeat("世界", 100)
	matches := Matches(s, ParseQuery("FALCON"), 10)
	for size := 1; size < 80; size++ {
		snippet, within, cut := Snippet(s, matches, size)
		if len(snippet) > size || !utf8.ValidString(snippet) || !cut {
			t.Fatalf("size %d: %d bytes, valid %v", size, len(snippet), utf8.ValidString(snippet))
		}
		for _, m := range within {
			if snippet[m.Start:m.End] != "falcon" {
				t.Errorf("size %d: highlight %q", size, snippet[m.Start:m.End])
			}
		}
	}
}

func TestEstimateTokens(t *testing.T) {
	if got := EstimateTokens(strings.Repeat("中", 9000)); got > 9000 || got < 4500 {
		t.Errorf("9,000 Chinese characters count as %d tokens", got)
	}
	if got := EstimateTokens(strings.Repeat("word ", 100)); got < 80 || got > 200 {
		t.Errorf("100 English words count as %d tokens", got)
	}
}

// FuzzFindsItself checks that any text can be analysed, that its terms have no spaces, and that a query of it looks for terms that it has.
func FuzzFindsItself(f *testing.F) {
	for _, s := range []string{"C++ in src/core", "会議は 부산", "ﷺ ½ \xff", "'s l' d'x", "🤷‍♀️ a_b-c", "İstanbul ǅ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 200 {
			return
		}
		terms := Analyze(s)
		have := map[string]bool{}
		for _, list := range [][]string{terms.Words, terms.Singles, terms.Pairs, terms.Code, terms.Stems} {
			for _, term := range list {
				if term == "" || len(strings.Fields(term)) != 1 || strings.Fields(term)[0] != term {
					t.Errorf("%q has the term %q", s, term)
				}
				have[term] = true
			}
		}
		q := ParseQuery(s)
		for _, term := range q.Terms {
			if term.Word != "" && !have[term.Word] {
				t.Errorf("%q is asked for the word %q, which it does not have", s, term.Word)
			}
			for _, p := range term.Pairs {
				if !have[p] {
					t.Errorf("%q is asked for the pair %q, which it does not have", s, p)
				}
			}
		}
		for _, c := range q.Code {
			if !have[c] {
				t.Errorf("%q is asked for %q, which it does not have", s, c)
			}
		}
		for _, m := range Matches(s, q, 100) {
			if m.Start < 0 || m.End > len(s) || m.Start >= m.End {
				t.Errorf("%q: match %v", s, m)
			}
		}
	})
}
