package memorytest

import (
	"context"
	"fmt"
	"strings"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var isolationTests = map[string]func(testkit.T, *kit){
	"users":                      testUsersApart,
	"scopes":                     testScopes,
	"odd ids":                    testOddIDs,
	"anonymous sessions":         testAnonymous,
	"ids of others lead nowhere": testForeignIDs,
	"paths lead nowhere":         testForeignPaths,
	"deleting is for oneself":    testRebuildApart,
}

// doors are the ways by which one could see a secret; each gives everything that it shows.
func (k *kit) doors(t testkit.T, ctx context.Context, secret string) map[string]string {
	t.Helper()
	out := map[string]string{"search": strings.Join(k.find(t, ctx, secret), "\n")}
	for _, mode := range []memoryv1.MatchMode{memoryv1.MatchMode_MATCH_MODE_ALL, memoryv1.MatchMode_MATCH_MODE_PHRASE} {
		out["search "+mode.String()] = strings.Join(snippets(k.search(t, ctx, &memoryv1.SearchRequest{Query: secret, Mode: mode, Explain: true, PageSize: 100})), "\n")
	}
	out["search by prefix"] = strings.Join(k.find(t, ctx, secret[:4]), "\n")
	list, err := k.memory.ListFiles(ctx, &memoryv1.ListFilesRequest{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, f := range list.GetFiles() {
		got, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: f.GetPath(), IncludeFacts: true})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		for _, l := range got.GetLines() {
			out["get"] += l.GetText() + "\n"
		}
	}
	// Saving tells whether something is remembered.
	if saved := k.save(t, ctx, "probe: "+secret)[0]; saved.GetDuplicate() {
		out["save"] = saved.String()
	}
	return out
}

func testUsersApart(t testkit.T, k *kit) {
	other := k.id
	other.User += "-b"
	k.save(t, k.ctx(t), "secret4471 is mine", "probe: secret4471")
	for door, shown := range k.doors(t, k.as(t, other), "secret4471") {
		if door == "get" && !strings.Contains(shown, "is mine") {
			continue // its own probe
		}
		if strings.Contains(shown, "4471") {
			t.Errorf("%s shows another user's fact: %s", door, shown)
		}
	}
	if got := k.find(t, k.ctx(t), "secret4471"); len(got) != 2 {
		t.Errorf("the owner finds %q", got)
	}
}

// testScopes checks, for every pair of identities, that one sees what the other saved exactly when they have one bucket.
func testScopes(t testkit.T, k *kit) {
	var ids []identity.Identity
	for _, agent := range []string{k.id.User + "-g1", k.id.User + "-g2"} {
		for _, user := range []string{"ana", "ben"} {
			for _, session := range []string{"s1", "s2"} {
				for _, scope := range []identity.Scope{identity.ScopeSession, identity.ScopeUser, identity.ScopeAgent} {
					ids = append(ids, identity.Identity{Tenant: identity.DefaultTenant, Agent: agent, User: user, Session: session, Scope: scope})
				}
			}
		}
	}
	for i, id := range ids {
		k.save(t, k.as(t, id), fmt.Sprintf("token%dx", i))
	}
	for i, reader := range ids {
		mine, err := reader.Bucket()
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Join(snippets(k.search(t, k.as(t, reader), &memoryv1.SearchRequest{Query: "token", PageSize: 100})), "\n") + "\n"
		for j, writer := range ids {
			theirs, err := writer.Bucket()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Contains(found, fmt.Sprintf("token%dx\n", j)), mine == theirs; got != want {
				t.Errorf("reader %d (%s) sees what %d (%s) saved: %v, want %v", i, mine, j, theirs, got, want)
			}
		}
	}
}

func testOddIDs(t testkit.T, k *kit) {
	odd := []string{
		"cid9+/Q==", "a:b", "a-b", "a/b", "a", "b/c", ".", "..", "../x", "Ana", "ana", "ana ", "アナ", "é", "e\u0301", "%2e%2e", "con", "NUL", "a\\b", "*", "?", "user",
		"__anon__", "anonymous", strings.Repeat("x", 256), strings.Repeat("ü", 128), "🦉", "'; drop", "{}", "~", "-", "a.bleve", "~anon",
	}
	var ids []identity.Identity
	for _, o := range odd {
		ids = append(ids,
			identity.Identity{Tenant: identity.DefaultTenant, Agent: k.id.User, User: o, Session: "s"},
			identity.Identity{Tenant: identity.DefaultTenant, Agent: k.id.User, User: "u", Session: o, Scope: identity.ScopeSession})
	}
	ids = append(ids,
		identity.Identity{Tenant: identity.DefaultTenant, Agent: k.id.User, User: "a/b", Session: "c", Scope: identity.ScopeSession},
		identity.Identity{Tenant: identity.DefaultTenant, Agent: k.id.User, User: "a", Session: "b/c", Scope: identity.ScopeSession})
	for i, id := range ids {
		k.save(t, k.as(t, id), fmt.Sprintf("odd%dx", i))
	}
	for i, id := range ids {
		if got := k.find(t, k.as(t, id), "odd"); len(got) != 1 || got[0] != fmt.Sprintf("odd%dx", i) {
			t.Errorf("user %q session %q finds %q, want its own fact alone", id.User, id.Session, got)
		}
	}
	for _, bad := range []string{strings.Repeat("x", 300), "line\nbreak", "nul\x00"} {
		_, err := k.memory.Search(k.as(t, identity.Identity{Agent: "a", User: bad}), &memoryv1.SearchRequest{Query: "odd"})
		if errdefs.ReasonOf(err) != identity.ReasonMalformed {
			t.Errorf("user %.20q: %v", bad, err)
		}
	}
}

func testAnonymous(t testkit.T, k *kit) {
	one := identity.Identity{Agent: k.id.User, Session: "anon-1"}
	two := identity.Identity{Agent: k.id.User, Session: "anon-2"}
	k.save(t, k.as(t, one), "only the first session knows falcon")
	if got := k.find(t, k.as(t, two), "falcon"); len(got) != 0 {
		t.Errorf("another anonymous session finds %q", got)
	}
	if got := k.find(t, k.as(t, one), "falcon"); len(got) != 1 {
		t.Errorf("the session itself finds %q", got)
	}
	_, err := k.memory.Search(k.as(t, identity.Identity{Agent: k.id.User}), &memoryv1.SearchRequest{Query: "falcon"})
	if errdefs.ReasonOf(err) != identity.ReasonRequired {
		t.Errorf("without user and session: %v", err)
	}
}

func testForeignIDs(t testkit.T, k *kit) {
	other := k.id
	other.User += "-b"
	id := k.save(t, k.ctx(t), "the falcon flies")[0].GetFact().GetId()
	_, err := k.memory.GetFact(k.as(t, other), &memoryv1.GetFactRequest{FactId: id})
	wantReason(t, err, errdefs.ErrNotFound, "FACT_NOT_FOUND")
	page := k.search(t, k.ctx(t), &memoryv1.SearchRequest{Query: "falcon", PageSize: 1})
	if page.GetNextPageToken() != "" {
		t.Fatalf("the page is %v", page)
	}
	k.save(t, k.ctx(t), "the falcon sleeps")
	page = k.search(t, k.ctx(t), &memoryv1.SearchRequest{Query: "falcon", PageSize: 1})
	got, err := k.memory.Search(k.as(t, other), &memoryv1.SearchRequest{Query: "falcon", PageSize: 1, PageToken: page.GetNextPageToken()})
	if err == nil && len(got.GetHits()) > 0 {
		t.Errorf("another user's page token shows %v", got.GetHits())
	}
}

func testForeignPaths(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.write(t, ctx, "AGENTS.md", "rules\n")
	k.write(t, ctx, "memory/secret.json", "{}\n")
	for _, path := range []string{
		"AGENTS.md", "../MEMORY.md", "memory/../AGENTS.md", "/etc/passwd", "memory/secret.json", "memory/.provenance/MEMORY.jsonl", "memory/.versions/x.md",
		"memory", "memory/", ".gantry-runtime/buckets/x.md", "knowledge/KNOWLEDGE.md", "MEMORY.md\x00", "memory/..%2fAGENTS.md/../../AGENTS.md",
	} {
		_, err := k.memory.Get(ctx, &memoryv1.GetRequest{Path: path})
		if errdefs.ClassOf(err) != errdefs.ErrInvalidArgument {
			t.Errorf("get %q: %v", path, err)
		}
	}
	if got := k.find(t, ctx, "rules"); len(got) != 0 {
		t.Errorf("a file outside of the memory is found: %q", got)
	}
}

func testRebuildApart(t testkit.T, k *kit) {
	other := k.id
	other.User += "-b"
	k.save(t, k.ctx(t), "mine stays")
	k.save(t, k.as(t, other), "theirs stays")
	if _, err := k.memory.Rebuild(k.ctx(t), &memoryv1.RebuildRequest{}); err != nil {
		t.Fatalf("rebuild: %v", err)
	}
	for _, id := range []identity.Identity{k.id, other} {
		if got := k.find(t, k.as(t, id), "stays"); len(got) != 1 {
			t.Errorf("%s finds %q", id.User, got)
		}
	}
}
