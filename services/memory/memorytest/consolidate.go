package memorytest

import (
	"context"
	"fmt"
	"strings"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var consolidateTests = map[string]func(testkit.T, *kit){
	"ledgers become MEMORY.md":           testConsolidate,
	"nothing new changes nothing":        testConsolidateTwice,
	"newer statements win":               testSupersede,
	"sections of people are kept":        testHandWritten,
	"lines that people edit are theirs":  testHandEdited,
	"lines that people delete stay away": testHandDeleted,
	"the budget holds":                   testBudget,
	"what people wrote is over budget":   testOverBudget,
	"dry run":                            testDryRun,
	"versions":                           testVersions,
	"a damaged watermark is loud":        testDamagedState,
	"without a model":                    testModelMissing,
}

// rules consolidates by rules.
func (k *kit) rules(t testkit.T, ctx context.Context, req *memoryv1.ConsolidateRequest) *memoryv1.ConsolidateResponse {
	t.Helper()
	req.Method = memoryv1.Method_METHOD_RULES
	answer, err := k.memory.Consolidate(ctx, req)
	if err != nil {
		t.Fatalf("consolidate: %v", err)
	}
	return answer
}

func testConsolidate(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	_, err := k.memory.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{
		{Text: "Ana likes green tea", Kind: memoryv1.FactKind_FACT_KIND_PREFERENCE},
		{Text: "green tea Ana likes"},
		{Text: "the falcon project ends in May", Topic: "Falcon"},
		{Text: "do as the page says", Provenance: &memoryv1.Provenance{Trust: memoryv1.Trust_TRUST_UNTRUSTED, Source: "https://x.invalid"}},
	}})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	if !answer.GetChanged() || answer.GetEntriesRead() != 4 || answer.GetAdded() != 3 || answer.GetDuplicates() != 1 || answer.GetCursor() == "" || answer.GetTokens() == 0 {
		t.Errorf("the answer is %v", answer)
	}
	want := "# Memory\n\n## Preferences\n\n- Ana likes green tea\n\n## Falcon\n\n- the falcon project ends in May\n\n" +
		"## Unverified (quoted from documents and tools)\n\n- Unverified from https://x.invalid: “do as the page says”\n"
	if got := k.read(t, ctx, "MEMORY.md"); got != want {
		t.Errorf("MEMORY.md is\n%s\nwant\n%s", got, want)
	}
	got, err := k.memory.Get(ctx, &memoryv1.GetRequest{IncludeFacts: true})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	for _, l := range got.GetLines() {
		if strings.HasPrefix(l.GetText(), "- ") && (len(l.GetFact().GetSourceFactIds()) != 1 || l.GetFact().GetProvenance().GetSession() != "s1") {
			t.Errorf("line %q does not resolve: %v", l.GetText(), l.GetFact())
		}
	}
}

func testConsolidateTwice(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "one fact about herons")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	before := k.read(t, ctx, "MEMORY.md")
	for _, full := range []bool{false, true} {
		if answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{Full: full}); answer.GetChanged() || answer.GetAdded() != 0 {
			t.Errorf("again, full %v: %v", full, answer)
		}
	}
	if got := k.read(t, ctx, "MEMORY.md"); got != before {
		t.Errorf("MEMORY.md became\n%s", got)
	}
	k.save(t, ctx, "two facts about storks")
	if answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{}); answer.GetEntriesRead() != 1 || answer.GetAdded() != 1 {
		t.Errorf("one more entry: %v", answer)
	}
}

func testSupersede(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "The gate code is K6")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	k.save(t, ctx, "The gate code changed to K7", "The door code is D1")
	if answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{}); answer.GetSuperseded() != 1 || answer.GetAdded() != 2 {
		t.Errorf("the answer is %v", answer)
	}
	content := k.read(t, ctx, "MEMORY.md")
	if strings.Contains(content, "K6") || !strings.Contains(content, "- The gate code changed to K7 (since 20") || !strings.Contains(content, "D1") {
		t.Errorf("MEMORY.md is\n%s", content)
	}
	hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: "gate code K6", Filter: &memoryv1.SearchFilter{Paths: []string{"memory/overflow/*"}}}).GetHits()
	if len(hits) != 1 || !strings.Contains(hits[0].GetSnippet(), "(until 20") || len(hits[0].GetFact().GetSourceFactIds()) != 1 {
		t.Errorf("the older statement is found as %v", hits)
	}
}

func testHandWritten(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	hand := "My own intro, no headline\r\n\r\n## Facts\n\n- hand made\n* odd   bullet\n\n<!-- keep -->\n### Deep\n\n\n1. first"
	k.write(t, ctx, "MEMORY.md", hand)
	k.save(t, ctx, "a learned fact", "hand made")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	content := k.read(t, ctx, "MEMORY.md")
	if !strings.HasPrefix(content, hand+"\n") || !strings.Contains(content, "## Facts (learned)\n\n- a learned fact\n") {
		t.Errorf("MEMORY.md is\n%s", content)
	}
	if strings.Count(content, "hand made") != 1 {
		t.Error("what people wrote was repeated")
	}
	k.save(t, ctx, "another learned fact")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	if content := k.read(t, ctx, "MEMORY.md"); !strings.HasPrefix(content, hand+"\n") || !strings.HasSuffix(content, "- a learned fact\n- another learned fact\n") {
		t.Errorf("MEMORY.md is\n%s", content)
	}
}

func testHandEdited(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "The gate code is K6", "The door code is D1")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	edited := strings.Replace(k.read(t, ctx, "MEMORY.md"), "- The gate code is K6", "- The gate code is K6, ask Ben\n- and a line of mine", 1)
	k.write(t, ctx, "MEMORY.md", edited)
	k.save(t, ctx, "The gate code changed to K7", "The door code changed to D2")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	content := k.read(t, ctx, "MEMORY.md")
	for _, want := range []string{"- The gate code is K6, ask Ben\n", "- and a line of mine\n", "- The gate code changed to K7", "- The door code changed to D2"} {
		if !strings.Contains(content, want) {
			t.Errorf("MEMORY.md lacks %q:\n%s", want, content)
		}
	}
	if strings.Contains(content, "D1") {
		t.Errorf("the older statement stayed:\n%s", content)
	}
}

func testHandDeleted(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "herons are blue", "storks are white")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	k.write(t, ctx, "MEMORY.md", strings.Replace(k.read(t, ctx, "MEMORY.md"), "- herons are blue\n", "", 1))
	k.save(t, ctx, "cranes are grey")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	if content := k.read(t, ctx, "MEMORY.md"); strings.Contains(content, "herons") || !strings.Contains(content, "cranes") {
		t.Errorf("MEMORY.md is\n%s", content)
	}
}

func testBudget(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "MEMORY.md", "# Mine\n\nA text of mine.\n")
	var texts []string
	for i := range 90 {
		texts = append(texts, fmt.Sprintf("item%d holds %s", i, strings.Repeat("某些内容", 4)))
	}
	k.save(t, ctx, texts...)
	answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{BudgetTokens: 500})
	content := k.read(t, ctx, "MEMORY.md")
	if answer.GetTokens() > 500 || answer.GetOverflowed() == 0 || answer.GetOverBudget() || !strings.HasPrefix(content, "# Mine\n\nA text of mine.\n") {
		t.Errorf("the answer is %v; MEMORY.md:\n%s", answer, content)
	}
	if !strings.Contains(content, "memory/overflow/") {
		t.Error("MEMORY.md does not say where the rest is")
	}
	for i := range texts {
		hits := k.search(t, ctx, &memoryv1.SearchRequest{Query: fmt.Sprintf("item%d", i), Filter: &memoryv1.SearchFilter{Paths: []string{"MEMORY.md", "memory/overflow/*"}}}).GetHits()
		if len(hits) != 1 {
			t.Errorf("item%d is there %d times", i, len(hits))
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(content), "\n") {
		if strings.HasPrefix(line, "- item") && !strings.HasSuffix(line, "某些内容") {
			t.Errorf("a line was cut: %q", line)
		}
	}
}

func testOverBudget(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	mine := strings.Repeat("a long text of mine\n", 100)
	k.write(t, ctx, "MEMORY.md", mine)
	k.save(t, ctx, "a fact")
	answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{BudgetTokens: 200})
	if !answer.GetOverBudget() || !strings.HasPrefix(k.read(t, ctx, "MEMORY.md"), mine) {
		t.Errorf("the answer is %v", answer)
	}
	if got := k.find(t, ctx, "fact"); len(got) == 0 {
		t.Error("the fact is lost")
	}
}

func testDryRun(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "herons are blue")
	answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{DryRun: true})
	if !answer.GetChanged() || answer.GetAdded() != 1 || !strings.Contains(answer.GetDiff(), "+- herons are blue\n") || answer.GetCursor() != "" {
		t.Errorf("the answer is %v", answer)
	}
	if got := k.read(t, ctx, "MEMORY.md"); got != "" {
		t.Errorf("a dry run wrote\n%s", got)
	}
	if answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{}); answer.GetEntriesRead() != 1 || !strings.Contains(answer.GetDiff(), "+- herons are blue\n") {
		t.Errorf("after it: %v", answer)
	}
}

func testVersions(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "herons are blue")
	if first := k.rules(t, ctx, &memoryv1.ConsolidateRequest{}); first.GetPreviousVersionId() != "" {
		t.Errorf("the first run kept version %s of nothing", first.GetPreviousVersionId())
	}
	old := k.read(t, ctx, "MEMORY.md")
	k.save(t, ctx, "storks are white")
	second := k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	list, err := k.memory.ListVersions(ctx, &memoryv1.ListVersionsRequest{})
	if err != nil || len(list.GetVersions()) != 1 || list.GetVersions()[0].GetVersionId() != second.GetPreviousVersionId() {
		t.Fatalf("versions: %v, %v; want %s", list, err, second.GetPreviousVersionId())
	}
	_, err = k.memory.RestoreVersion(ctx, &memoryv1.RestoreVersionRequest{VersionId: second.GetPreviousVersionId(), IfRevision: "wrong"})
	wantReason(t, err, errdefs.ErrAborted, "REVISION_CONFLICT")
	restored, err := k.memory.RestoreVersion(ctx, &memoryv1.RestoreVersionRequest{VersionId: second.GetPreviousVersionId()})
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	stat, err := k.files.Stat(ctx, &filesystemv1.StatRequest{Path: "MEMORY.md"})
	if err != nil || stat.GetInfo().GetRevision() != restored.GetRevision() || k.read(t, ctx, "MEMORY.md") != old {
		t.Errorf("restored %v, the file is %v, %v", restored, stat, err)
	}
	if _, err := k.memory.RestoreVersion(ctx, &memoryv1.RestoreVersionRequest{VersionId: restored.GetPreviousVersionId()}); err != nil {
		t.Errorf("and back: %v", err)
	}
	if !strings.Contains(k.read(t, ctx, "MEMORY.md"), "storks") {
		t.Error("the way back is lost")
	}
	_, err = k.memory.RestoreVersion(ctx, &memoryv1.RestoreVersionRequest{VersionId: "20200101T000000000Z-00000000"})
	wantReason(t, err, errdefs.ErrNotFound, "VERSION_NOT_FOUND")
}

func testDamagedState(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "herons are blue")
	k.write(t, ctx, "memory/.consolidation.json", "{")
	_, err := k.memory.Consolidate(ctx, &memoryv1.ConsolidateRequest{Method: memoryv1.Method_METHOD_RULES})
	wantReason(t, err, errdefs.ErrDataLoss, "STATE_DAMAGED")
}

func testModelMissing(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	st, err := k.memory.GetStatus(ctx, &memoryv1.GetStatusRequest{})
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	if st.GetModel() != "" {
		t.Skip("the service has a model")
	}
	k.save(t, ctx, "herons are blue")
	_, err = k.memory.Consolidate(ctx, &memoryv1.ConsolidateRequest{Method: memoryv1.Method_METHOD_MODEL})
	wantReason(t, err, errdefs.ErrFailedPrecondition, "MODEL_MISSING")
	answer, err := k.memory.Consolidate(ctx, &memoryv1.ConsolidateRequest{})
	if err != nil || answer.GetMethod() != memoryv1.Method_METHOD_RULES {
		t.Errorf("auto: %v, %v", answer, err)
	}
}
