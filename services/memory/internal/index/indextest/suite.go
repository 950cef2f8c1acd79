// Package indextest is the suite that every backend of the index port passes.
package indextest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// Traits say what a backend does that others need not.
type Traits struct {
	// Durable: what was applied is there when the index is opened again after Close.
	Durable bool
}

// Run runs the suite. The function gives a new, empty backend.
func Run(t testkit.T, traits Traits, open func(testing.TB) index.Backend) {
	t.Run("find", func(t testkit.T) { testFind(t, open(t)) })
	t.Run("modes", func(t testkit.T) { testModes(t, open(t)) })
	t.Run("odd queries", func(t testkit.T) { testOddQueries(t, open(t)) })
	t.Run("filters", func(t testkit.T) { testFilters(t, open(t)) })
	t.Run("replace", func(t testkit.T) { testReplace(t, open(t)) })
	t.Run("pages", func(t testkit.T) { testPages(t, open(t)) })
	t.Run("explain", func(t testkit.T) { testExplain(t, open(t)) })
	t.Run("keys", func(t testkit.T) { testKeys(t, open(t)) })
	if traits.Durable {
		t.Run("durable", func(t testkit.T) { testDurable(t, open(t)) })
	}
}

// Fill opens an index and puts one document a text into it.
func Fill(tb testing.TB, b index.Backend, key string, texts ...string) index.Index {
	tb.Helper()
	ix, err := b.Open(tb.Context(), key)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() { ix.Close() })
	var batch index.Batch
	for i, s := range texts {
		batch.Put = append(batch.Put, index.Doc{ID: fmt.Sprint(i), Kind: index.KindFact, Source: "a.md", Text: s, Line: i + 1, Hash: "h" + fmt.Sprint(i)})
	}
	batch.Sources = map[string]*index.Source{"a.md": {Revision: "1", Docs: map[string]string{"0": "x"}}}
	if err := ix.Apply(tb.Context(), batch); err != nil {
		tb.Fatalf("apply: %v", err)
	}
	return ix
}

// search gives the ids of the hits, best first.
func search(t testkit.T, ix index.Index, mode index.Mode, query string) []string {
	t.Helper()
	return ids(t, ix, index.Query{Text: text.ParseQuery(query), Mode: mode, Limit: 20})
}

func ids(t testkit.T, ix index.Index, q index.Query) []string {
	t.Helper()
	r, err := ix.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search: %v", err)
	}
	var out []string
	for _, h := range r.Hits {
		out = append(out, h.Doc.ID)
	}
	return out
}

func testFind(t testkit.T, b index.Backend) {
	ix := Fill(t, b, "k",
		"my badge is 4471",                     // 0
		"会議は来週から大阪で行う",                         // 1
		"발표 장소가 부산으로 바뀌었다",                     // 2
		"京都の資料",                                // 3
		"대전 자료",                                // 4
		"The invoice for Lisbon was sent",      // 5
		"The invoice was sent",                 // 6
		"we build with C++ and src/core",       // 7
		"it's on port :8443",                   // 8
		"The servers are deployed every night", // 9
		"parseHTTPRequest returns E1042",       // 10
		"Das Café öffnet um neun",              // 11
		"我的工牌号是 4471，在上海办公室",                   // 12
		"deploy 🚀 on Fridays is fine",          // 13
		"Los informes se envían los lunes",     // 14
		"Проекты сдаются в пятницу",            // 15
		"GPT4模型 runs in the Frankfurt region",  // 16
		"ประชุมทีมทุกวันจันทร์",                // 17
	)
	for _, c := range []struct{ query, want string }{
		{"what is my badge number?", "0"},
		{"大阪", "1"}, {"会議", "1"}, {"부산", "2"}, {"장소", "2"}, {"京", "3"}, {"장소는 어디", "2"},
		{"invoice Lisbon quarterly", "5"},
		{"C++", "7"}, {"src/core", "7"}, {"it's :8443", "8"}, {":8443", "8"},
		{"server deployment", "9"}, {"parse request", "10"}, {"e1042", "10"},
		{"cafe", "11"}, {"CAFÉ OFFNET", "11"}, {"上海", "12"}, {"工牌", "12"}, {"号", "12"}, {"🚀", "13"},
		{"informe", "14"}, {"проект", "15"}, {"模型", "16"}, {"GPT4 模型", "16"}, {"ประชุม", "17"},
	} {
		got := search(t, ix, index.ModeAny, c.query)
		if len(got) == 0 || got[0] != c.want {
			t.Errorf("%q found %v, want %s first", c.query, got, c.want)
		}
	}
	if got := search(t, ix, index.ModeAny, "invoice Lisbon quarterly"); !slices.Contains(got, "6") {
		t.Errorf("a text with one of three words was not found: %v", got)
	}
	docs, err := ix.Lookup(t.Context(), index.FieldHash, "h5", 5)
	if err != nil || len(docs) != 1 || docs[0].ID != "5" {
		t.Errorf("look up by hash: %v, %v", docs, err)
	}
}

func testModes(t testkit.T, b index.Backend) {
	ix := Fill(t, b, "k", "red green blue", "green red", "red green", "蓝色的自行车在车库", "自行车是蓝色的", "the red and the green")
	for _, c := range []struct {
		mode  index.Mode
		query string
		want  []string
	}{
		{index.ModeAll, "red blue", []string{"0"}},
		{index.ModeAll, "green red", []string{"0", "1", "2", "5"}},
		{index.ModeAll, "the green", []string{"0", "1", "2", "5"}},
		{index.ModePhrase, "red green", []string{"0", "2"}},
		{index.ModePhrase, "green blue", []string{"0"}},
		{index.ModePhrase, "red and the green", []string{"5"}},
		{index.ModePhrase, "blue green", nil},
		{index.ModeAll, "车库 自行车", []string{"3"}},
		{index.ModePhrase, "蓝色的自行车", []string{"3"}},
		{index.ModeAll, "purple", nil},
	} {
		got := search(t, ix, c.mode, c.query)
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("mode %d, %q: -want +got\n%s", c.mode, c.query, diff)
		}
	}
	got := ids(t, ix, index.Query{Text: text.ParseQuery("gre"), Prefix: true, Limit: 9})
	if len(got) != 4 {
		t.Errorf("by prefix: %v, want 4", got)
	}
}

func testOddQueries(t testkit.T, b index.Backend) {
	ix := Fill(t, b, "k", "C++ and more", "plain text")
	for _, q := range []string{
		`"open`, "NEAR(", "a AND", "-x", "a:b", "^2", "~", "", "   ", "?", "*", "\"", "\\", "+", "((", "text:plain", "/re(/", "x^", "\x00", "\xff\xfe",
		strings.Repeat("long ", 3000), strings.Repeat("長い", 2000), "🤷‍♀️", "a", "\u202ertl", "ﷺ", "½",
	} {
		for _, mode := range []index.Mode{index.ModeAny, index.ModeAll, index.ModePhrase} {
			for _, prefix := range []bool{false, true} {
				_, err := ix.Search(t.Context(), index.Query{Text: text.ParseQuery(q), Mode: mode, Prefix: prefix, Limit: 5})
				if err != nil {
					t.Errorf("query %.40q in mode %d: %v", q, mode, err)
				}
			}
		}
	}
}

func testFilters(t testkit.T, b index.Backend) {
	ix, err := b.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	day := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	err = ix.Apply(t.Context(), index.Batch{Put: []index.Doc{
		{ID: "a", Kind: index.KindFact, Source: "memory/2026-10-01.md", Text: "apple one", Time: day, Session: "s/1", Speaker: "user", Trust: 1, FactKind: 2},
		{ID: "b", Kind: index.KindMemory, Source: "MEMORY.md", Text: "apple two", Time: day.AddDate(0, 0, 1), Session: "S/1", Speaker: "tool", Trust: 3},
		{ID: "c", Kind: index.KindMessage, Source: "s 2", Text: "apple three", Time: day.AddDate(0, 0, 2), Session: "s 2", Trust: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter index.Filter
		want   []string
	}{
		"none":           {index.Filter{}, []string{"a", "b", "c"}},
		"kind":           {index.Filter{Kinds: []index.Kind{index.KindFact, index.KindMessage}}, []string{"a", "c"}},
		"fact kind":      {index.Filter{FactKinds: []uint8{2}}, []string{"a"}},
		"trust":          {index.Filter{Trusts: []uint8{3}}, []string{"b"}},
		"source":         {index.Filter{Sources: []string{"MEMORY.md", "nowhere"}}, []string{"b"}},
		"no source":      {index.Filter{Sources: []string{}}, nil},
		"session, exact": {index.Filter{Sessions: []string{"s/1"}}, []string{"a"}},
		"spaces":         {index.Filter{Sessions: []string{"s 2"}}, []string{"c"}},
		"speaker":        {index.Filter{Speakers: []string{"tool"}}, []string{"b"}},
		"from":           {index.Filter{Start: day.AddDate(0, 0, 1)}, []string{"b", "c"}},
		"until":          {index.Filter{End: day.AddDate(0, 0, 1)}, []string{"a"}},
		"both":           {index.Filter{Trusts: []uint8{1}, Start: day.Add(time.Hour)}, []string{"c"}},
	} {
		got := ids(t, ix, index.Query{Text: text.ParseQuery("apple"), Filter: c.filter, Limit: 9})
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func testReplace(t testkit.T, b index.Backend) {
	ix := Fill(t, b, "k", "old words", "other words")
	ctx := t.Context()
	state := &index.Source{Revision: "2", Docs: map[string]string{"0": "p", "id with spaces": "r"}}
	err := ix.Apply(ctx, index.Batch{
		Put:     []index.Doc{{ID: "0", Text: "new words", Source: "a.md"}, {ID: "id with spaces", Text: "nine", Source: "a.md"}},
		Delete:  []string{"1", "not there"},
		Sources: map[string]*index.Source{"a.md": state, "b.md": {Revision: "7"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := search(t, ix, index.ModeAny, "old other"); got != nil {
		t.Errorf("replaced and deleted texts are found: %v", got)
	}
	if got := search(t, ix, index.ModeAny, "new"); len(got) != 1 {
		t.Errorf("the new text is not found: %v", got)
	}
	got, ok, err := ix.Source(ctx, "a.md")
	if err != nil || !ok {
		t.Fatalf("source: %v, %v", ok, err)
	}
	if diff := cmp.Diff(*state, got); diff != "" {
		t.Errorf("source state: -want +got\n%s", diff)
	}
	revisions, err := ix.Revisions(ctx)
	if diff := cmp.Diff(map[string]string{"a.md": "2", "b.md": "7"}, revisions); err != nil || diff != "" {
		t.Errorf("revisions: %v\n%s", err, diff)
	}
	stats, err := ix.Stats(ctx)
	if diff := cmp.Diff(index.Stats{Docs: 2, Sources: 2}, stats); err != nil || diff != "" {
		t.Errorf("stats: %v\n%s", err, diff)
	}
	if err := ix.Apply(ctx, index.Batch{Sources: map[string]*index.Source{"b.md": nil}}); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := ix.Source(ctx, "b.md"); ok {
		t.Error("a removed source is there")
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := ix.Apply(canceled, index.Batch{Put: []index.Doc{{ID: "x", Text: "zebra"}}}); err == nil {
		t.Error("apply with a cancelled context succeeded")
	}
}

func testPages(t testkit.T, b index.Backend) {
	var texts []string
	for i := range 25 {
		texts = append(texts, fmt.Sprintf("apple number %d", i))
	}
	ix := Fill(t, b, "k", texts...)
	seen := map[string]bool{}
	for offset := 0; offset < 30; offset += 10 {
		r, err := ix.Search(t.Context(), index.Query{Text: text.ParseQuery("apple"), Offset: offset, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if r.Total != 25 {
			t.Errorf("total is %d, want 25", r.Total)
		}
		for _, h := range r.Hits {
			if seen[h.Doc.ID] {
				t.Errorf("%s is on two pages", h.Doc.ID)
			}
			seen[h.Doc.ID] = true
		}
	}
	if len(seen) != 25 {
		t.Errorf("the pages hold %d documents, want 25", len(seen))
	}
}

func testExplain(t testkit.T, b index.Backend) {
	ix := Fill(t, b, "k", "the badge is new", "a number")
	r, err := ix.Search(t.Context(), index.Query{Text: text.ParseQuery("badge number"), Limit: 2, Explain: true})
	if err != nil || len(r.Hits) != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	for _, h := range r.Hits {
		found := slices.ContainsFunc(h.Terms, func(s index.TermScore) bool {
			return s.Field == "words" && strings.Contains(h.Doc.Text, s.Term) && s.Score > 0
		})
		if !found {
			t.Errorf("the explanation of %q names no word of it: %+v", h.Doc.Text, h.Terms)
		}
	}
}

func testKeys(t testkit.T, b index.Backend) {
	keys := []string{"default/user/coder/ana", "default/user/coder/ana2", "default/agent/coder", "default/user/coder"}
	open := map[string]index.Index{}
	for _, key := range keys {
		open[key] = Fill(t, b, key, "secret of "+key, "common")
	}
	for key, ix := range open {
		r, err := ix.Search(t.Context(), index.Query{Text: text.ParseQuery("secret"), Limit: 9})
		if err != nil || len(r.Hits) != 1 || r.Hits[0].Doc.Text != "secret of "+key {
			t.Errorf("index %s holds %+v, %v", key, r.Hits, err)
		}
	}
	first := keys[0]
	open[first].Close()
	if err := b.Destroy(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := b.Destroy(t.Context(), first); err != nil {
		t.Errorf("destroying what is not there: %v", err)
	}
	again, err := b.Open(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if st, err := again.Stats(t.Context()); err != nil || st != (index.Stats{}) {
		t.Errorf("a destroyed index holds %+v, %v", st, err)
	}
	if st, err := open[keys[1]].Stats(t.Context()); err != nil || st.Docs != 2 {
		t.Errorf("its neighbour holds %+v, %v", st, err)
	}
}

func testDurable(t testkit.T, b index.Backend) {
	ix := Fill(t, b, "k", "kept words")
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := search(t, again, index.ModeAny, "kept"); len(got) != 1 {
		t.Errorf("found %v after opening again", got)
	}
	if r, err := again.Revisions(t.Context()); err != nil || r["a.md"] != "1" {
		t.Errorf("revisions after opening again: %v, %v", r, err)
	}
	if bytes, ok := b.Exists(t.Context(), "k"); !ok || bytes == 0 {
		t.Errorf("exists: %d, %v", bytes, ok)
	}
}
