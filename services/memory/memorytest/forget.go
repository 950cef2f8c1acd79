package memorytest

import (
	"context"
	"strings"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var forgetTests = map[string]func(testkit.T, *kit){
	"by id, from everywhere": testForgetID,
	"a line of MEMORY.md":    testForgetMerged,
	"by query":               testForgetQuery,
	"everything":             testForgetEverything,
	"dry run":                testForgetDry,
	"the journal":            testForgetJournal,
	"of another user":        testForgetApart,
}

func (k *kit) forget(t testkit.T, ctx context.Context, req *memoryv1.ForgetRequest) *memoryv1.ForgetResponse {
	t.Helper()
	answer, err := k.memory.Forget(ctx, req)
	if err != nil {
		t.Fatalf("forget: %v", err)
	}
	return answer
}

func byIDs(ids ...string) *memoryv1.ForgetRequest {
	return &memoryv1.ForgetRequest{Selection: &memoryv1.ForgetRequest_FactIds{FactIds: &memoryv1.FactIds{Ids: ids}}}
}

// everything gives the content of every file below the memory, hidden ones included.
func (k *kit) everything(t testkit.T, ctx context.Context) string {
	t.Helper()
	all := k.read(t, ctx, "MEMORY.md")
	list, err := k.files.List(ctx, &filesystemv1.ListRequest{Path: "memory", Recursive: true, PageSize: 5000})
	if err != nil && errdefs.ReasonOf(err) != "PATH_NOT_FOUND" {
		t.Fatalf("list: %v", err)
	}
	for _, e := range list.GetEntries() {
		if e.GetKind() == filesystemv1.FileKind_FILE_KIND_FILE {
			all += k.read(t, ctx, e.GetPath())
		}
	}
	return all
}

func testForgetID(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	answer, err := k.memory.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{
		{Text: "The vault code is B12", Provenance: &memoryv1.Provenance{Evidence: "it is B12, he said"}}, {Text: "herons are blue"},
	}})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	k.save(t, ctx, "The vault code changed to C99")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	id := answer.GetFacts()[0].GetFact().GetId()
	receipt := k.forget(t, ctx, byIDs(id))
	if len(receipt.GetFactIds()) == 0 || receipt.GetLines()[answer.GetPath()] != 1 || receipt.GetCursor() == "" {
		t.Errorf("the receipt is %v", receipt)
	}
	if all := k.everything(t, ctx); strings.Contains(all, "B12") || strings.Contains(all, id) || !strings.Contains(all, "herons") || !strings.Contains(all, "C99") {
		t.Errorf("the files hold\n%s", all)
	}
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{Full: true})
	if got := k.find(t, ctx, "B12"); len(got) != 0 {
		t.Errorf("found %q", got)
	}
	if again := k.forget(t, ctx, byIDs(id)); len(again.GetFactIds()) != 0 || again.GetCursor() != "" {
		t.Errorf("forgetting again: %v", again)
	}
	if got := k.find(t, ctx, "herons"); len(got) != 1 {
		t.Errorf("what stays is found as %q", got)
	}
}

func testForgetMerged(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "herons are blue", "storks are white")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	got, err := k.memory.Get(ctx, &memoryv1.GetRequest{IncludeFacts: true})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	for _, l := range got.GetLines() {
		if strings.Contains(l.GetText(), "herons") {
			k.forget(t, ctx, byIDs(l.GetFact().GetId()))
		}
	}
	if all := k.everything(t, ctx); strings.Contains(all, "herons") || strings.Count(all, "storks") != 2 {
		t.Errorf("the files hold\n%s", all)
	}
}

func testForgetQuery(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "the blue heron", "the grey heron", "the stork")
	k.write(t, ctx, "memory/notes.md", "# Notes\n\nA heron by hand.\n\nA crane.\n")
	receipt := k.forget(t, ctx, &memoryv1.ForgetRequest{Selection: &memoryv1.ForgetRequest_Query{Query: &memoryv1.SearchRequest{Query: "heron"}}})
	if len(receipt.GetFactIds()) != 3 || receipt.GetLines()["memory/notes.md"] != 1 {
		t.Errorf("the receipt is %v", receipt)
	}
	if all := k.everything(t, ctx); strings.Contains(all, "heron") || !strings.Contains(all, "the stork") || !strings.Contains(all, "# Notes\n\n\nA crane.\n") {
		t.Errorf("the files hold\n%s", all)
	}
}

func testForgetEverything(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.save(t, ctx, "herons are blue", "The gate code is K6")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	k.save(t, ctx, "The gate code changed to K7")
	k.rules(t, ctx, &memoryv1.ConsolidateRequest{})
	k.forget(t, ctx, &memoryv1.ForgetRequest{Selection: &memoryv1.ForgetRequest_Everything{Everything: true}})
	all := k.everything(t, ctx)
	for _, gone := range []string{"herons", "K6", "K7", k.id.User} {
		if strings.Contains(all, gone) {
			t.Errorf("%q is still there:\n%s", gone, all)
		}
	}
	if answer := k.rules(t, ctx, &memoryv1.ConsolidateRequest{Full: true}); answer.GetAdded() != 0 {
		t.Errorf("consolidation brings back %v", answer)
	}
	if k.save(t, ctx, "herons are blue")[0].GetDuplicate() {
		t.Error("what was forgotten counts as remembered")
	}
}

func testForgetDry(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	id := k.save(t, ctx, "herons are blue")[0].GetFact().GetId()
	before := k.everything(t, ctx)
	req := byIDs(id)
	req.DryRun = true
	if receipt := k.forget(t, ctx, req); len(receipt.GetFactIds()) != 1 || receipt.GetCursor() != "" {
		t.Errorf("the receipt is %v", receipt)
	}
	if k.everything(t, ctx) != before {
		t.Error("a dry run wrote")
	}
}

func testForgetJournal(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.say(t, k.id, threadv1.Role_ROLE_USER, "My badge number is 4471.")
	answer, err := k.memory.Flush(ctx, &memoryv1.FlushRequest{Method: memoryv1.Method_METHOD_RULES})
	if err != nil || len(answer.GetFacts()) != 1 {
		t.Fatalf("flush: %v, %v", answer, err)
	}
	req := byIDs(answer.GetFacts()[0].GetFact().GetId())
	req.DryRun = true
	if receipt := k.forget(t, ctx, req); len(receipt.GetRemainders()) == 0 || receipt.GetRemainders()[0].GetPlace() != "journal" {
		t.Errorf("the receipt does not name the journal: %v", receipt)
	}
	req.DryRun, req.RedactThreads = false, true
	if receipt := k.forget(t, ctx, req); receipt.GetEvents() != 1 {
		t.Errorf("the receipt is %v", receipt)
	}
	if got := k.findThreads(t, ctx, &memoryv1.SearchThreadsRequest{Query: "badge"}); len(got) != 0 {
		t.Errorf("the message is found: %q", got)
	}
	if answer, err := k.memory.Flush(ctx, &memoryv1.FlushRequest{Method: memoryv1.Method_METHOD_RULES}); err != nil || len(answer.GetFacts()) != 0 {
		t.Errorf("flushing again brings back %v, %v", answer, err)
	}
}

func testForgetApart(t testkit.T, k *kit) {
	other := k.id
	other.User += "-b"
	id := k.save(t, k.ctx(t), "herons are blue")[0].GetFact().GetId()
	k.save(t, k.as(t, other), "herons are blue too")
	k.forget(t, k.as(t, other), byIDs(id))
	k.forget(t, k.as(t, other), &memoryv1.ForgetRequest{Selection: &memoryv1.ForgetRequest_Everything{Everything: true}})
	if got := k.find(t, k.ctx(t), "herons"); len(got) != 1 {
		t.Errorf("the owner finds %q", got)
	}
}
