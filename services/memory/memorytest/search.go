package memorytest

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var searchTests = map[string]func(testkit.T, *kit){
	"any language":                   testLanguages,
	"several words, not all present": testSomeWords,
	"punctuation in queries":         testPunctuation,
	"very long texts and queries":    testLongQuery,
	"pages are bounded":              testBoundedPages,
	"modes":                          testSearchModes,
	"filters":                        testSearchFilters,
	"snippets and highlights":        testSnippets,
	"explain":                        testExplainHits,
	"recency":                        testRecency,
	"tokens belong to their request": testTokens,
	"a beginning of a word":          testByPrefix,
	"the same text in several files": testSameText,
	"an empty memory":                testEmptyMemory,
	"rebuild":                        testRebuild,
	"status":                         testStatus,
}

func testLanguages(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx,
		"my badge number is 4471", "会議は来週から大阪で行う", "발표 장소가 부산으로 바뀌었다", "京都の資料", "대전 자료",
		"我们的发布窗口是每周四下午", "Das Treffen ist in Köln am Bahnhof", "La reunión será en Málaga", "Встреча состоится в Казани",
		"Rendez-vous à l'hôtel près de la gare", "ใช้เวลาเดินทางสองชั่วโมง", "the parser lives in src/core/parseRequest.go",
	)
	for _, c := range []struct{ query, want string }{
		{"what is my badge number?", "4471"}, {"大阪", "大阪"}, {"会議", "会議"}, {"부산", "부산"}, {"장소", "장소"}, {"부산에서", "부산"},
		{"发布窗口", "发布窗口"}, {"我们什么时候发布？", "发布"}, {"周", "周四"}, {"koln", "Köln"}, {"malaga", "Málaga"}, {"Казань", "Казани"},
		{"hotel", "hôtel"}, {"เดินทาง", "เดินทาง"}, {"parse request", "parseRequest"}, {"src/core", "src/core"}, {"meetings in Köln", "Köln"},
	} {
		got := k.find(t, ctx, c.query)
		if len(got) == 0 || !strings.Contains(got[0], c.want) {
			t.Errorf("%q found %q, want %q first", c.query, got, c.want)
		}
	}
}

func testSomeWords(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "the invoice for Lisbon was paid", "an invoice is open")
	got := k.find(t, ctx, "invoice Lisbon quarterly")
	if len(got) != 2 || !strings.Contains(got[0], "Lisbon") {
		t.Errorf("found %q", got)
	}
}

func testPunctuation(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "the engine is written in C++", "look into src/core first", "it's served on :8443", "plain words")
	for _, c := range []struct{ query, want string }{{"C++", "C++"}, {"src/core", "src/core"}, {"it's :8443", ":8443"}} {
		if got := k.find(t, ctx, c.query); len(got) == 0 || !strings.Contains(got[0], c.want) {
			t.Errorf("%q found %q", c.query, got)
		}
	}
	for _, q := range []string{`"open`, "NEAR(", "a AND", "-x", "a:b", "^2", "~", "?", "*", `"`, `\`, "🤷", "x", strings.Repeat("word ", 2000)} {
		for _, mode := range []memoryv1.MatchMode{memoryv1.MatchMode_MATCH_MODE_ANY, memoryv1.MatchMode_MATCH_MODE_ALL, memoryv1.MatchMode_MATCH_MODE_PHRASE} {
			if _, err := k.memory.Search(ctx, &memoryv1.SearchRequest{Query: q, Mode: mode}); err != nil {
				t.Errorf("%.20q in %v: %v", q, mode, err)
			}
		}
	}
	for _, q := range []string{"", "   ", "\n\t"} {
		_, err := k.memory.Search(ctx, &memoryv1.SearchRequest{Query: q})
		wantReason(t, err, errdefs.ErrInvalidArgument, "QUERY_EMPTY")
	}
}

func testLongQuery(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	var b strings.Builder
	for i := range 2600 {
		b.WriteRune(rune(0x4e00 + (i*7919)%20000))
	}
	k.save(t, ctx, b.String(), "short")
	answer := k.search(t, ctx, &memoryv1.SearchRequest{Query: b.String()})
	if len(answer.GetHits()) == 0 || !strings.Contains(b.String(), answer.GetHits()[0].GetSnippet()) {
		t.Error("a text is not found by itself")
	}
	if !answer.GetQueryCut() {
		t.Error("the answer does not say that the query was cut")
	}
}

func testBoundedPages(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	const facts = 60
	var texts []string
	for i := range facts {
		texts = append(texts, fmt.Sprintf("apple%d apple %s", i, strings.Repeat(fmt.Sprintf("filler%d ", i), 400)))
	}
	k.save(t, ctx, texts...)
	seen := map[string]bool{}
	for token, pages := "", 0; ; pages++ {
		answer := k.search(t, ctx, &memoryv1.SearchRequest{Query: "apple", PageSize: 100, SnippetBytes: 4096, PageToken: token})
		size := 0
		for _, h := range answer.GetHits() {
			size += len(h.GetSnippet())
			if len(h.GetSnippet()) > 4096 || !h.GetTruncated() && len(h.GetSnippet()) > 4096 || !utf8.ValidString(h.GetSnippet()) {
				t.Errorf("a snippet has %d bytes", len(h.GetSnippet()))
			}
			if seen[h.GetFact().GetId()] {
				t.Error("a fact is on two pages")
			}
			seen[h.GetFact().GetId()] = true
		}
		if size > 64<<10 {
			t.Errorf("a page has %d bytes", size)
		}
		if token = answer.GetNextPageToken(); token == "" || pages > facts {
			break
		}
	}
	if len(seen) != facts {
		t.Errorf("the pages hold %d facts, want %d", len(seen), facts)
	}
	if n := len(k.search(t, ctx, &memoryv1.SearchRequest{Query: "apple"}).GetHits()); n != 10 {
		t.Errorf("a page has %d hits by default, want 10", n)
	}
}

func testSearchModes(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "red green blue", "green red", "red and green", "蓝色的自行车在车库", "自行车是蓝色的")
	for _, c := range []struct {
		mode  memoryv1.MatchMode
		query string
		want  int64
	}{
		{memoryv1.MatchMode_MATCH_MODE_UNSPECIFIED, "red blue", 3},
		{memoryv1.MatchMode_MATCH_MODE_ALL, "blue red", 1},
		{memoryv1.MatchMode_MATCH_MODE_PHRASE, "red green", 1},
		{memoryv1.MatchMode_MATCH_MODE_PHRASE, "蓝色的自行车", 1},
		{memoryv1.MatchMode_MATCH_MODE_ALL, "自行车 蓝色", 2},
	} {
		if got := k.search(t, ctx, &memoryv1.SearchRequest{Query: c.query, Mode: c.mode}).GetTotalMatches(); got != c.want {
			t.Errorf("%v %q: %d matches, want %d", c.mode, c.query, got, c.want)
		}
	}
}

func testSearchFilters(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	_, err := k.memory.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{
		{Text: "apple one", Kind: memoryv1.FactKind_FACT_KIND_DECISION, Provenance: &memoryv1.Provenance{Session: "s/1", Speaker: "ana"}},
		{Text: "apple two", Provenance: &memoryv1.Provenance{Session: "S/1", Trust: memoryv1.Trust_TRUST_USER}},
	}})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	k.write(t, ctx, "MEMORY.md", "# Memory\n\napple three\n")
	k.write(t, ctx, "memory/archive/old.md", "apple four\n")
	hour := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		filter *memoryv1.SearchFilter
		want   int
	}{
		"none":         {nil, 4},
		"facts":        {&memoryv1.SearchFilter{Kinds: []memoryv1.DocumentKind{memoryv1.DocumentKind_DOCUMENT_KIND_FACT}}, 2},
		"two kinds":    {&memoryv1.SearchFilter{Kinds: []memoryv1.DocumentKind{memoryv1.DocumentKind_DOCUMENT_KIND_MEMORY, memoryv1.DocumentKind_DOCUMENT_KIND_NOTE}}, 2},
		"decisions":    {&memoryv1.SearchFilter{FactKinds: []memoryv1.FactKind{memoryv1.FactKind_FACT_KIND_DECISION}}, 1},
		"session":      {&memoryv1.SearchFilter{Sessions: []string{"s/1"}}, 1},
		"speaker":      {&memoryv1.SearchFilter{Speakers: []string{"ana", "nobody"}}, 1},
		"trust":        {&memoryv1.SearchFilter{Trusts: []memoryv1.Trust{memoryv1.Trust_TRUST_OUTSIDE}}, 2},
		"path":         {&memoryv1.SearchFilter{Paths: []string{"MEMORY.md"}}, 1},
		"glob":         {&memoryv1.SearchFilter{Paths: []string{"memory/**"}}, 3},
		"no such path": {&memoryv1.SearchFilter{Paths: []string{"nowhere/*.md"}}, 0},
		"later":        {&memoryv1.SearchFilter{StartTime: timestamppb.New(hour)}, 0},
		"earlier":      {&memoryv1.SearchFilter{EndTime: timestamppb.New(hour)}, 4},
		"together":     {&memoryv1.SearchFilter{Paths: []string{"memory/**"}, Sessions: []string{"s/1", "S/1"}}, 2},
	} {
		if got := len(k.search(t, ctx, &memoryv1.SearchRequest{Query: "apple", Filter: c.filter}).GetHits()); got != c.want {
			t.Errorf("%s: %d hits, want %d", name, got, c.want)
		}
	}
	_, err = k.memory.Search(ctx, &memoryv1.SearchRequest{Query: "apple", Filter: &memoryv1.SearchFilter{Paths: []string{"memory/["}}})
	wantReason(t, err, errdefs.ErrInvalidArgument, "PATTERN_INVALID")
}

func testSnippets(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	text := strings.Repeat("über vieles ", 60) + "the falcon 隼は速い lands" + strings.Repeat(" 後で", 200)
	k.save(t, ctx, text)
	for _, query := range []string{"Falcon", "隼"} {
		h := k.search(t, ctx, &memoryv1.SearchRequest{Query: query, SnippetBytes: 100}).GetHits()[0]
		if len(h.GetSnippet()) > 100 || !h.GetTruncated() || !utf8.ValidString(h.GetSnippet()) || len(h.GetHighlights()) == 0 {
			t.Fatalf("the hit is %v", h)
		}
		for _, l := range h.GetHighlights() {
			if got := h.GetSnippet()[l.GetOffsetBytes() : l.GetOffsetBytes()+l.GetLengthBytes()]; !strings.EqualFold(got, query) {
				t.Errorf("%q is highlighted for %q", got, query)
			}
		}
	}
	h := k.search(t, ctx, &memoryv1.SearchRequest{Query: "lands"}).GetHits()[0]
	got, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: h.GetPath(), StartLine: h.GetLine(), EndLine: h.GetEndLine()})
	if err != nil || len(got.GetLines()) != 1 || !strings.Contains(got.GetLines()[0].GetText(), "falcon") {
		t.Errorf("path and line of the hit lead to %v, %v", got, err)
	}
}

func testExplainHits(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "the falcon lands at dawn")
	h := k.search(t, ctx, &memoryv1.SearchRequest{Query: "falcons at dawn", Explain: true}).GetHits()[0]
	fields := map[string]bool{}
	for _, e := range h.GetExplanation() {
		fields[e.GetField()] = true
	}
	if !fields["words"] || !fields["stems"] {
		t.Errorf("the explanation names %v", h.GetExplanation())
	}
}

func testRecency(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "memory/2020-01-01.md", "- the standup is at nine\n")
	k.write(t, ctx, "memory/"+time.Now().UTC().Format(time.DateOnly)+".md", "- the standup for everybody is at ten from this week on\n")
	if got := k.find(t, ctx, "standup"); len(got) != 2 || !strings.Contains(got[0], "nine") {
		t.Fatalf("by match alone: %q", got)
	}
	got := snippets(k.search(t, ctx, &memoryv1.SearchRequest{Query: "standup", Ranking: &memoryv1.Ranking{RecencyHalfLife: durationpb.New(30 * 24 * time.Hour)}}))
	if len(got) != 2 || !strings.Contains(got[0], "ten") {
		t.Errorf("with age: %q", got)
	}
}

func testTokens(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "apple one", "apple two", "apple three")
	first := k.search(t, ctx, &memoryv1.SearchRequest{Query: "apple", PageSize: 2})
	if first.GetNextPageToken() == "" || len(first.GetHits()) != 2 {
		t.Fatalf("the first page is %v", first)
	}
	second := k.search(t, ctx, &memoryv1.SearchRequest{Query: "apple", PageSize: 2, PageToken: first.GetNextPageToken()})
	if second.GetNextPageToken() != "" || len(second.GetHits()) != 1 {
		t.Errorf("the second page is %v", second)
	}
	for _, req := range []*memoryv1.SearchRequest{
		{Query: "pear", PageToken: first.GetNextPageToken()}, {Query: "apple", PageToken: "garbage"}, {Query: "apple", Mode: memoryv1.MatchMode_MATCH_MODE_ALL, PageToken: first.GetNextPageToken()},
	} {
		_, err := k.memory.Search(ctx, req)
		wantReason(t, err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
	}
}

func testByPrefix(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "kubernetes runs the cluster")
	answer := k.search(t, ctx, &memoryv1.SearchRequest{Query: "kube"})
	if len(answer.GetHits()) != 1 || !answer.GetByPrefix() {
		t.Errorf("found %v", answer)
	}
	if answer := k.search(t, ctx, &memoryv1.SearchRequest{Query: "kubernetes"}); answer.GetByPrefix() {
		t.Error("a whole word counts as a beginning")
	}
}

func testSameText(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "memory/2020-01-01.md", "- the same words\n")
	k.write(t, ctx, "memory/2020-01-02.md", "- the same words\n- the same other words\n")
	hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: "same words"}).GetHits()
	if len(hits) != 2 || hits[0].GetDuplicates() != 1 {
		t.Errorf("found %v", hits)
	}
}

func testEmptyMemory(t testkit.T, k *kit) {
	answer := k.search(t, k.ctx(t), &memoryv1.SearchRequest{Query: "anything", MinCursor: "any"})
	if len(answer.GetHits()) != 0 || !answer.GetFreshness().GetCurrent() {
		t.Errorf("found %v", answer)
	}
	if _, err := k.memory.GetStatus(k.ctx(t), &memoryv1.GetStatusRequest{}); err != nil {
		t.Errorf("status: %v", err)
	}
}

func testRebuild(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "one fact", "two facts")
	for range 2 {
		answer, err := k.memory.Rebuild(ctx, &memoryv1.RebuildRequest{})
		if err != nil || answer.GetDocuments() != 2 || answer.GetSources() != 1 {
			t.Errorf("rebuild: %v, %v", answer, err)
		}
	}
	if got := k.find(t, ctx, "fact"); len(got) != 2 {
		t.Errorf("found %q", got)
	}
}

func testStatus(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "one fact", "two facts")
	status := func() *memoryv1.GetStatusResponse {
		t.Helper()
		st, err := k.memory.GetStatus(ctx, &memoryv1.GetStatusRequest{})
		if err != nil {
			t.Fatalf("status: %v", err)
		}
		return st
	}
	st := status()
	if st.GetLedgers() != 1 || st.GetIndex().GetDocuments() != 2 || st.GetIndex().GetPendingFiles() != 0 || st.GetConsolidation().GetPendingLedgers() != 1 ||
		st.GetConsolidation().GetPendingBytes() == 0 || st.GetConsolidation().GetLastRunTime() != nil {
		t.Errorf("after saving: %v", st)
	}
	k.write(t, ctx, "memory/notes.md", "a note\n")
	if got := status().GetIndex().GetPendingFiles(); got != 1 {
		t.Errorf("after a write outside, %d files are pending, want 1", got)
	}
	if _, err := k.memory.Consolidate(ctx, &memoryv1.ConsolidateRequest{Method: memoryv1.Method_METHOD_RULES}); err != nil {
		t.Fatalf("consolidate: %v", err)
	}
	if st := status(); st.GetConsolidation().GetPendingLedgers() != 0 || st.GetConsolidation().GetLastRunTime() == nil || st.GetMemoryTokens() == 0 {
		t.Errorf("after consolidating: %v", st)
	}
}
