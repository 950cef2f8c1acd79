package memorytest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var transferTests = map[string]func(testkit.T, *kit){
	"into an empty memory":  testTransfer,
	"into one that is used": testTransferMerge,
	"what is no export":     testImportRefuses,
}

// export gives all lines and the end of an export.
func (k *kit) export(t testkit.T, ctx context.Context, req *memoryv1.ExportRequest) (string, *memoryv1.ExportEnd) {
	t.Helper()
	stream, err := k.memory.Export(ctx, req)
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	var lines strings.Builder
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("export: %v", err)
		}
		if end := m.GetEnd(); end != nil {
			sum := sha256.Sum256([]byte(lines.String()))
			if end.GetSha256() != hex.EncodeToString(sum[:]) {
				t.Errorf("the checksum %s does not fit the lines", end.GetSha256())
			}
			return lines.String(), end
		}
		if len(m.GetLines()) > 256<<10 || !strings.HasSuffix(m.GetLines(), "\n") {
			t.Errorf("a message has %d bytes, whole lines: %v", len(m.GetLines()), strings.HasSuffix(m.GetLines(), "\n"))
		}
		lines.WriteString(m.GetLines())
	}
}

// load imports lines, one a message.
func (k *kit) load(t testkit.T, ctx context.Context, lines string) (*memoryv1.ImportResponse, error) {
	t.Helper()
	stream, err := k.memory.Import(ctx)
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	for line := range strings.SplitAfterSeq(lines, "\n") {
		if err := stream.Send(&memoryv1.ImportRequest{Lines: line}); err != nil {
			break // the answer says why
		}
	}
	return stream.CloseAndRecv()
}

func testTransfer(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	saved := k.save(t, ctx, "herons are blue", "a\n- b", strings.Repeat("很长的文字 ", 300))
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	k.write(t, ctx, "memory/notes.md", strings.Repeat("A note by hand.\n\n", 9000))
	lines, end := k.export(t, ctx, &memoryv1.ExportRequest{})
	if end.GetFiles() != 4 || end.GetFacts() != 3+3+9000 {
		t.Errorf("the end is %v", end)
	}
	other := k.id
	other.User += "-b"
	answer, err := k.load(t, k.as(t, other), lines)
	if err != nil || answer.GetFiles() != 4 || answer.GetAdded() != end.GetFacts() || answer.GetCursor() == "" {
		t.Fatalf("import: %v, %v", answer, err)
	}
	if again, _ := k.export(t, k.as(t, other), &memoryv1.ExportRequest{}); again != lines {
		t.Error("the export of what was imported differs")
	}
	got, err := k.memory.GetFact(k.as(t, other), &memoryv1.GetFactRequest{FactId: saved[0].GetFact().GetId()})
	if err != nil || got.GetFact().GetProvenance().GetUser() != k.id.User {
		t.Errorf("the fact is %v, %v", got, err)
	}
	if answer := k.rules(t, k.as(t, other), &memoryv1.ConsolidateRequest{}); answer.GetEntriesRead() != 0 {
		t.Errorf("the watermark was not taken along: %v", answer)
	}
}

func testTransferMerge(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	other := k.id
	other.User += "-b"
	k.save(t, ctx, "herons are blue", "storks are white")
	kept := k.save(t, k.as(t, other), "Storks are white", "cranes are grey")[0].GetFact().GetId()
	lines, _ := k.export(t, ctx, &memoryv1.ExportRequest{IncludeVersions: true})
	for _, added := range []int64{1, 0} {
		answer, err := k.load(t, k.as(t, other), lines)
		if err != nil || answer.GetAdded() != added || answer.GetDuplicates() != 2-added {
			t.Errorf("import: %v, %v; want %d added", answer, err, added)
		}
	}
	hits := k.search(t, k.as(t, other), &memoryv1.SearchRequest{Query: "storks herons cranes"}).GetHits()
	if len(hits) != 3 {
		t.Errorf("found %v", hits)
	}
	for _, h := range hits {
		if h.GetTrust() != memoryv1.Trust_TRUST_USER || strings.Contains(h.GetSnippet(), "torks") && h.GetFact().GetId() != kept {
			t.Errorf("hit %v", h)
		}
	}
}

func testImportRefuses(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	header := `{"type":"header","version":1}` + "\n"
	for name, lines := range map[string]string{
		"nothing": "", "no JSON": header + "x\n", "no header": `{"type":"file","path":"MEMORY.md"}` + "\n", "newer": `{"type":"header","version":9}` + "\n",
		"a path outside": header + `{"type":"file","path":"memory/a.md","content":"fine"}` + "\n" + `{"type":"file","path":"AGENTS.md","content":"x"}` + "\n",
		"a path upwards": header + `{"type":"file","path":"memory/../AGENTS.md","content":"x"}` + "\n", "unknown type": header + `{"type":"magic","path":"MEMORY.md"}` + "\n",
		"cut off": header + `{"type":"file","path":"memory/a.md"`,
	} {
		_, err := k.load(t, ctx, lines)
		if errdefs.ClassOf(err) != errdefs.ErrInvalidArgument || errdefs.ReasonOf(err) != "IMPORT_INVALID" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all := k.everything(t, ctx); all != "" {
		t.Errorf("half of a refused import was written:\n%s", all)
	}
}
