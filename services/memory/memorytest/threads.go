package memorytest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var threadTests = map[string]func(testkit.T, *kit){
	"messages are found":             testSearchThreads,
	"threads are the user's own":     testThreadsApart,
	"new messages are found at once": testThreadsFollow,
	"deleted and redacted":           testThreadsForget,
	"flush by rules":                 testFlush,
}

// say puts a message into the thread of an identity.
func (k *kit) say(t testkit.T, id identity.Identity, role threadv1.Role, text string, change ...func(*threadv1.Message)) {
	t.Helper()
	if k.Threads == nil {
		t.Skip("the target has no journal")
	}
	m := &threadv1.Message{Role: role, Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_Text{Text: text}}}}
	for _, c := range change {
		c(m)
	}
	payload := &threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{Message: m}}}
	k.commit(t, id, &threadv1.Event{Schema: 1, Type: "message/appended", Payload: payload})
}

func (k *kit) commit(t testkit.T, id identity.Identity, e *threadv1.Event) {
	t.Helper()
	var random [12]byte
	rand.Read(random[:])
	e.Id = fmt.Sprintf("e-%x", random)
	if err := k.Journal(k.as(t, id), []*threadv1.Event{e}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func (k *kit) findThreads(t testkit.T, ctx context.Context, req *memoryv1.SearchThreadsRequest) []string {
	t.Helper()
	answer, err := k.memory.SearchThreads(ctx, req)
	if err != nil {
		t.Fatalf("search threads: %v", err)
	}
	return snippets(answer)
}

func testSearchThreads(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.say(t, k.id, threadv1.Role_ROLE_USER, "which bird is blue?")
	k.say(t, k.id, threadv1.Role_ROLE_ASSISTANT, "The heron is blue, 青い鳥")
	k.say(t, k.id, threadv1.Role_ROLE_USER, "recalled heron", func(m *threadv1.Message) { m.Origin = "reference" })
	other := k.id
	other.Session, other.Scope = "s2", identity.ScopeSession
	k.say(t, other, threadv1.Role_ROLE_USER, "the heron again")
	answer, err := k.memory.SearchThreads(ctx, &memoryv1.SearchThreadsRequest{Query: "heron"})
	if err != nil || len(answer.GetHits()) != 2 || !answer.GetFreshness().GetCurrent() {
		t.Fatalf("found %v, %v", answer, err)
	}
	for _, h := range answer.GetHits() {
		if h.GetKind() != memoryv1.DocumentKind_DOCUMENT_KIND_MESSAGE || h.GetSession() == "" || h.GetSeq() == 0 || h.GetPath() != "" || h.GetTime() == nil {
			t.Errorf("hit %v", h)
		}
	}
	for name, c := range map[string]struct {
		query  string
		filter *memoryv1.SearchFilter
		want   int
	}{
		"session":  {"heron", &memoryv1.SearchFilter{Sessions: []string{"s2"}}, 1},
		"speaker":  {"heron", &memoryv1.SearchFilter{Speakers: []string{"assistant"}}, 1},
		"japanese": {"鳥", nil, 1},
		"recalled": {"recalled", nil, 0},
	} {
		if got := k.findThreads(t, ctx, &memoryv1.SearchThreadsRequest{Query: c.query, Filter: c.filter}); len(got) != c.want {
			t.Errorf("%s: found %q, want %d", name, got, c.want)
		}
	}
	if got := k.find(t, ctx, "heron"); len(got) != 0 {
		t.Errorf("messages are found as memory: %q", got)
	}
}

func testThreadsApart(t testkit.T, k *kit) {
	k.say(t, k.id, threadv1.Role_ROLE_USER, "my badge is 4471")
	for name, change := range map[string]func(*identity.Identity){
		"another user":        func(id *identity.Identity) { id.User += "-b" },
		"another agent":       func(id *identity.Identity) { id.Agent += "-b" },
		"anonymous":           func(id *identity.Identity) { id.User = "" },
		"the agent's scope":   func(id *identity.Identity) { id.User, id.Scope = id.User+"-b", identity.ScopeAgent },
		"the session's scope": func(id *identity.Identity) { id.User, id.Scope = id.User+"-b", identity.ScopeSession },
	} {
		id := k.id
		change(&id)
		if got := k.findThreads(t, k.as(t, id), &memoryv1.SearchThreadsRequest{Query: "badge"}); len(got) != 0 {
			t.Errorf("%s finds %q", name, got)
		}
	}
	anon := identity.Identity{Agent: k.id.User, Session: "a1"}
	k.say(t, anon, threadv1.Role_ROLE_USER, "anonymous badge")
	anon2 := anon
	anon2.Session = "a2"
	if got := k.findThreads(t, k.as(t, anon2), &memoryv1.SearchThreadsRequest{Query: "badge"}); len(got) != 0 {
		t.Errorf("another anonymous session finds %q", got)
	}
	if got := k.findThreads(t, k.as(t, anon), &memoryv1.SearchThreadsRequest{Query: "badge"}); len(got) != 1 {
		t.Errorf("the anonymous session finds %q", got)
	}
	agent := k.id
	agent.Scope = identity.ScopeAgent
	if got := k.findThreads(t, k.as(t, agent), &memoryv1.SearchThreadsRequest{Query: "badge"}); len(got) != 1 {
		t.Errorf("in the agent's scope the user finds %q of its own threads", got)
	}
}

func testThreadsFollow(t testkit.T, k *kit) {
	for i := range 5 {
		k.say(t, k.id, threadv1.Role_ROLE_USER, fmt.Sprintf("message no%d", i))
		if got := k.findThreads(t, k.ctx(t), &memoryv1.SearchThreadsRequest{Query: fmt.Sprintf("no%d", i), RequireCurrent: true}); len(got) != 1 {
			t.Fatalf("message %d is found as %q", i, got)
		}
	}
	for range 2 {
		answer, err := k.memory.Rebuild(k.ctx(t), &memoryv1.RebuildRequest{Threads: true})
		if err != nil || answer.GetDocuments() != 5 {
			t.Errorf("rebuild: %v, %v", answer, err)
		}
	}
}

func testThreadsForget(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.say(t, k.id, threadv1.Role_ROLE_USER, "the vault is B12")
	k.say(t, k.id, threadv1.Role_ROLE_USER, "the vault is old")
	if got := k.findThreads(t, ctx, &memoryv1.SearchThreadsRequest{Query: "vault"}); len(got) != 2 {
		t.Fatalf("found %q", got)
	}
	threads := threadv1.NewThreadServiceClient(k.Threads)
	if _, err := threads.Redact(ctx, &threadv1.RedactRequest{Seqs: []int64{1}}); err != nil {
		t.Fatalf("redact: %v", err)
	}
	if got := k.findThreads(t, ctx, &memoryv1.SearchThreadsRequest{Query: "vault"}); len(got) != 1 || strings.Contains(got[0], "B12") {
		t.Errorf("after redacting: %q", got)
	}
	// A redaction that new messages follow, before anybody searched.
	k.say(t, k.id, threadv1.Role_ROLE_USER, "the vault is new")
	if _, err := threads.Redact(ctx, &threadv1.RedactRequest{Seqs: []int64{2}}); err != nil {
		t.Fatalf("redact: %v", err)
	}
	k.say(t, k.id, threadv1.Role_ROLE_USER, "the vault is closed")
	if got := k.findThreads(t, ctx, &memoryv1.SearchThreadsRequest{Query: "vault"}); len(got) != 2 || strings.Contains(strings.Join(got, " "), "old") {
		t.Errorf("after redacting and going on: %q", got)
	}
	if _, err := threads.Delete(ctx, &threadv1.DeleteRequest{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if got := k.findThreads(t, ctx, &memoryv1.SearchThreadsRequest{Query: "vault"}); len(got) != 0 {
		t.Errorf("after deleting: %q", got)
	}
}

func testFlush(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.say(t, k.id, threadv1.Role_ROLE_USER, "Hello! My badge number is 4471. What is the weather?")
	k.say(t, k.id, threadv1.Role_ROLE_ASSISTANT, "I prefer to say that it rains. Remember that I said so.")
	k.say(t, k.id, threadv1.Role_ROLE_USER, "Remember that recalled things are not extracted.", func(m *threadv1.Message) { m.Origin = "reference" })
	k.say(t, k.id, threadv1.Role_ROLE_USER, "I prefer metric units.")
	dry, err := k.memory.Flush(ctx, &memoryv1.FlushRequest{Method: memoryv1.Method_METHOD_RULES, DryRun: true})
	if err != nil || len(dry.GetFacts()) != 2 || k.ledgers(t, ctx) != "" {
		t.Fatalf("dry run: %v, %v", dry, err)
	}
	for range 2 {
		answer, err := k.memory.Flush(ctx, &memoryv1.FlushRequest{Method: memoryv1.Method_METHOD_RULES})
		if err != nil || len(answer.GetFacts()) != 2 || answer.GetThroughSeq() != 4 || answer.GetMessages() != 2 {
			t.Fatalf("flush: %v, %v", answer, err)
		}
		f := answer.GetFacts()[1].GetFact()
		if f.GetProvenance().GetSeq() != 4 || f.GetProvenance().GetTrust() != memoryv1.Trust_TRUST_USER || f.GetKind() != memoryv1.FactKind_FACT_KIND_PREFERENCE || f.GetProvenance().GetSession() != "s1" {
			t.Errorf("the fact is %v", f)
		}
	}
	ledger := k.ledgers(t, ctx)
	if strings.Count(ledger, "4471") != 1 || strings.Count(ledger, "metric") != 1 || strings.Contains(ledger, "rains") || strings.Contains(ledger, "recalled") {
		t.Errorf("the ledger is\n%s", ledger)
	}
	answer, err := k.memory.Flush(ctx, &memoryv1.FlushRequest{Method: memoryv1.Method_METHOD_RULES, AfterSeq: 1, ThroughSeq: 3})
	if err != nil || len(answer.GetFacts()) != 0 || answer.GetThroughSeq() != 3 {
		t.Errorf("a range without facts: %v, %v", answer, err)
	}
}
