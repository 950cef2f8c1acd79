package memorytest

import (
	"fmt"
	"strings"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var getTests = map[string]func(testkit.T, *kit){
	"ranges of lines":   testRanges,
	"bounded answers":   testBoundedGet,
	"what is not there": testGetErrors,
	"facts by line":     testFactsByLine,
	"list of files":     testListFiles,
}

var fileTests = map[string]func(testkit.T, *kit){
	"what people write is found":        testOutsideWrites,
	"what people change is found anew":  testOutsideEdits,
	"what people delete is not found":   testOutsideDeletes,
	"edited lines lose their record":    testEditedLine,
	"records are not shown":             testRecordsHidden,
	"damaged records do not stop reads": testDamagedRecords,
}

func testRanges(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "MEMORY.md", "one\r\ntwo\nthree\nvier ü\n")
	for _, c := range []struct {
		start, end int64
		want       string
		more       bool
	}{
		{0, 0, "1 one|2 two|3 three|4 vier ü", false}, {2, 3, "2 two|3 three", true}, {4, 0, "4 vier ü", false}, {3, 99, "3 three|4 vier ü", false}, {2, 1, "", true},
	} {
		got, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: "/MEMORY.md", StartLine: c.start, EndLine: c.end})
		if err != nil {
			t.Errorf("lines %d to %d: %v", c.start, c.end, err)
			continue
		}
		var lines []string
		for _, l := range got.GetLines() {
			lines = append(lines, fmt.Sprint(l.GetNumber(), " ", l.GetText()))
		}
		if joined := strings.Join(lines, "|"); joined != c.want || got.GetMore() != c.more || got.GetTotalLines() != 4 || got.GetRevision() == "" {
			t.Errorf("lines %d to %d: %q, more %v, total %d; want %q", c.start, c.end, joined, got.GetMore(), got.GetTotalLines(), c.want)
		}
	}
	k.write(t, ctx, "MEMORY.md", "")
	if got, err := k.memory.Get(ctx, &memoryv1.GetRequest{}); err != nil || len(got.GetLines()) != 0 || got.GetMore() {
		t.Errorf("an empty file: %v, %v", got, err)
	}
}

func testBoundedGet(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "memory/long.md", strings.Repeat(strings.Repeat("x", 99)+"\n", 5000))
	next, total := int64(1), 0
	for range 10 {
		got, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: "memory/long.md", StartLine: next})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		if n := len(got.GetLines()); n == 0 || n > 2000 {
			t.Fatalf("%d lines at once", n)
		}
		total += len(got.GetLines())
		next += int64(len(got.GetLines()))
		if !got.GetMore() {
			break
		}
	}
	if total != 5000 {
		t.Errorf("%d lines in all, want 5000", total)
	}
}

func testGetErrors(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	_, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: "memory/nothing.md"})
	wantReason(t, err, errdefs.ErrNotFound, "FILE_NOT_FOUND")
	k.write(t, ctx, "MEMORY.md", "one\n")
	_, err = k.memory.Get(ctx, &memoryv1.GetRequest{StartLine: 2})
	wantReason(t, err, errdefs.ErrOutOfRange, "LINE_OUT_OF_RANGE")
	_, err = k.memory.Get(ctx, &memoryv1.GetRequest{Path: "knowledge/KNOWLEDGE.md"})
	wantReason(t, err, errdefs.ErrInvalidArgument, "PATH_NOT_MEMORY")
}

func testFactsByLine(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	saved := k.save(t, ctx, "first fact", "second fact")
	path := saved[0].GetFact().GetPath()
	got, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: path, IncludeFacts: true})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	for _, s := range saved {
		f := got.GetLines()[s.GetFact().GetLine()-1].GetFact()
		if f.GetId() != s.GetFact().GetId() || f.GetProvenance().GetTrust() != memoryv1.Trust_TRUST_USER {
			t.Errorf("line %d has %v", s.GetFact().GetLine(), f)
		}
	}
}

func testListFiles(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	for _, path := range []string{"MEMORY.md", "memory/2026-10-01.md", "memory/archive/2020-01-01.md", "memory/notes.txt", "knowledge/x.md"} {
		k.write(t, ctx, path, "text\n")
	}
	var paths []string
	for token := ""; ; {
		page, err := k.memory.ListFiles(ctx, &memoryv1.ListFilesRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, f := range page.GetFiles() {
			paths = append(paths, f.GetPath()+" "+f.GetKind().String())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	want := "MEMORY.md DOCUMENT_KIND_MEMORY|memory/2026-10-01.md DOCUMENT_KIND_FACT|memory/archive/2020-01-01.md DOCUMENT_KIND_NOTE"
	if got := strings.Join(paths, "|"); got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
}

func testOutsideWrites(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "a saved fact")
	k.write(t, ctx, "memory/2026-10-01.md", "# Day\n\n## Meeting\n\n- the heron is blue\n\nA paragraph on herons.\n")
	hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: "heron"}).GetHits()
	if len(hits) != 2 || hits[0].GetFact().GetProvenance().GetTrust() != memoryv1.Trust_TRUST_OUTSIDE {
		t.Fatalf("found %v", hits)
	}
	for _, h := range hits {
		if h.GetPath() != "memory/2026-10-01.md" || h.GetLine() != 5 && h.GetLine() != 7 || h.GetTime().AsTime().Format("2006-01-02") != "2026-10-01" {
			t.Errorf("hit %v", h)
		}
	}
}

func testOutsideEdits(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "MEMORY.md", "- the heron is blue\n- the stork is white\n")
	if got := k.find(t, ctx, "heron"); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	k.write(t, ctx, "MEMORY.md", "intro\n\n- the stork is white\n- the crane is grey\n")
	if got := k.find(t, ctx, "heron"); len(got) != 0 {
		t.Errorf("a removed line is found: %q", got)
	}
	hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: "stork"}).GetHits()
	if len(hits) != 1 || hits[0].GetLine() != 3 {
		t.Errorf("a line that moved: %v", hits)
	}
	if got := k.find(t, ctx, "crane"); len(got) != 1 {
		t.Errorf("a new line: %q", got)
	}
}

func testOutsideDeletes(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	path := k.save(t, ctx, "the heron is blue")[0].GetFact().GetPath()
	if _, err := k.files.Delete(ctx, &filesystemv1.DeleteRequest{Path: path}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if got := k.find(t, ctx, "heron"); len(got) != 0 {
		t.Errorf("found %q", got)
	}
	if k.save(t, ctx, "the heron is blue")[0].GetDuplicate() {
		t.Error("what was deleted counts as remembered")
	}
}

func testEditedLine(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	path := k.save(t, ctx, "the heron is blue")[0].GetFact().GetPath()
	k.write(t, ctx, path, strings.Replace(k.read(t, ctx, path), "blue", "red", 1))
	hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: "heron"}).GetHits()
	if len(hits) != 1 || hits[0].GetTrust() != memoryv1.Trust_TRUST_OUTSIDE || !strings.Contains(hits[0].GetSnippet(), "red") {
		t.Errorf("found %v", hits)
	}
}

func testRecordsHidden(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	saved := k.save(t, ctx, "the heron is blue")[0].GetFact()
	content := k.read(t, ctx, saved.GetPath())
	for _, noise := range []string{saved.GetId(), saved.GetContentSha256(), "{", "<!--", "session"} {
		if strings.Contains(content, noise) {
			t.Errorf("the ledger shows %q to its reader:\n%s", noise, content)
		}
	}
	if got := k.find(t, ctx, saved.GetContentSha256()); len(got) != 0 {
		t.Errorf("a record is found as text: %q", got)
	}
}

func testDamagedRecords(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "the heron is blue")
	list, err := k.files.List(ctx, &filesystemv1.ListRequest{Path: "memory", Recursive: true})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, e := range list.GetEntries() {
		if strings.HasSuffix(e.GetPath(), ".jsonl") {
			k.write(t, ctx, e.GetPath(), "{\"broken\n\x00\xff\n")
		}
	}
	hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: "heron"}).GetHits()
	if len(hits) != 1 || hits[0].GetTrust() != memoryv1.Trust_TRUST_OUTSIDE {
		t.Errorf("found %v", hits)
	}
}
