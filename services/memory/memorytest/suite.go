// Package memorytest is the suite that every MemoryService passes, through its client: in memory, in another process, or somebody else's.
//
// The suite needs the FilesystemService that the service under test works on, to look at the files and to change them as a person would; and, for what reads threads, the
// ThreadService. Each test has users of its own, so it can run against a service that is in use.
package memorytest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Target is what the suite runs against. The connections must send the identity of the context along, as those of package client do.
type Target struct {
	Memory grpc.ClientConnInterface
	Files  grpc.ClientConnInterface
	// Threads may be nil: then what reads threads is not tested.
	Threads grpc.ClientConnInterface
}

// Journal puts events into the thread of the context's identity, as an orchestrator would.
func (target Target) Journal(ctx context.Context, events []*threadv1.Event) error {
	var random [8]byte
	rand.Read(random[:])
	threads := threadv1.NewThreadServiceClient(target.Threads)
	owner := &threadv1.Owner{Id: fmt.Sprintf("memorytest/%x", random)}
	if _, err := threads.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: owner}); err != nil {
		return err
	}
	got, err := threads.Acquire(ctx, &threadv1.AcquireRequest{Owner: owner})
	if err != nil {
		return err
	}
	_, err = threads.Commit(ctx, &threadv1.CommitRequest{
		OwnerId: owner.GetId(), Epoch: got.GetHead().GetEpoch(), ExpectedSeq: -1, BatchId: fmt.Sprintf("%x", random), Events: events, Release: true,
	})
	return err
}

// Run runs the suite.
func Run(t testkit.T, target func(testkit.T) Target) {
	for _, group := range []struct {
		name  string
		tests map[string]func(testkit.T, *kit)
	}{
		{"save", saveTests}, {"get", getTests}, {"search", searchTests}, {"isolation", isolationTests}, {"files", fileTests},
		{"consolidate", consolidateTests}, {"threads", threadTests}, {"forget", forgetTests}, {"transfer", transferTests},
	} {
		t.Run(group.name, func(t testkit.T) {
			for name, test := range group.tests {
				t.Run(name, func(t testkit.T) { test(t, newKit(t, target(t))) })
			}
		})
	}
}

// kit is what one test works with.
type kit struct {
	Target
	memory memoryv1.MemoryServiceClient
	files  filesystemv1.FilesystemServiceClient
	id     identity.Identity
}

func newKit(t testkit.T, target Target) *kit {
	var random [6]byte
	rand.Read(random[:])
	return &kit{
		Target: target, memory: memoryv1.NewMemoryServiceClient(target.Memory), files: filesystemv1.NewFilesystemServiceClient(target.Files),
		id: identity.Identity{Tenant: identity.DefaultTenant, Agent: "memorytest", User: fmt.Sprintf("user-%x", random), Session: "s1"},
	}
}

// ctx gives the context of a call by the test's user.
func (k *kit) ctx(t testkit.T) context.Context { return k.as(t, k.id) }

func (k *kit) as(t testkit.T, id identity.Identity) context.Context {
	return identity.NewContext(t.Context(), id)
}

// save saves texts and gives what became of them.
func (k *kit) save(t testkit.T, ctx context.Context, texts ...string) []*memoryv1.SavedFact {
	t.Helper()
	req := &memoryv1.SaveFactsRequest{}
	for _, s := range texts {
		req.Facts = append(req.Facts, &memoryv1.NewFact{Text: s, Provenance: &memoryv1.Provenance{Trust: memoryv1.Trust_TRUST_USER}})
	}
	answer, err := k.memory.SaveFacts(ctx, req)
	if err != nil {
		t.Fatalf("save %q: %v", texts, err)
	}
	if len(answer.GetFacts()) != len(texts) {
		t.Fatalf("saving %d facts answered %d", len(texts), len(answer.GetFacts()))
	}
	return answer.GetFacts()
}

// find gives the snippets of a search.
func (k *kit) find(t testkit.T, ctx context.Context, query string) []string {
	t.Helper()
	return snippets(k.search(t, ctx, &memoryv1.SearchRequest{Query: query}))
}

func (k *kit) search(t testkit.T, ctx context.Context, req *memoryv1.SearchRequest) *memoryv1.SearchResponse {
	t.Helper()
	answer, err := k.memory.Search(ctx, req)
	if err != nil {
		t.Fatalf("search %.60q: %v", req.GetQuery(), err)
	}
	return answer
}

func snippets(answer interface{ GetHits() []*memoryv1.Hit }) []string {
	var out []string
	for _, h := range answer.GetHits() {
		out = append(out, h.GetSnippet())
	}
	return out
}

// write writes a file as somebody outside.
func (k *kit) write(t testkit.T, ctx context.Context, path, content string) {
	t.Helper()
	if _, err := k.files.Write(ctx, &filesystemv1.WriteRequest{Path: path, Content: []byte(content)}); err != nil {
		t.Fatalf("write %s: %v", path, err)
	}
}

// read reads a file; empty when there is none.
func (k *kit) read(t testkit.T, ctx context.Context, path string) string {
	t.Helper()
	answer, err := k.files.Read(ctx, &filesystemv1.ReadRequest{Path: path, Mode: filesystemv1.ReadMode_READ_MODE_BYTES, LimitBytes: 4 << 20})
	if errdefs.ReasonOf(err) == "PATH_NOT_FOUND" {
		return ""
	}
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return string(answer.GetData())
}

// ledgers gives the text of all ledgers.
func (k *kit) ledgers(t testkit.T, ctx context.Context) string {
	t.Helper()
	list, err := k.memory.ListFiles(ctx, &memoryv1.ListFilesRequest{})
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	var b strings.Builder
	for _, f := range list.GetFiles() {
		if f.GetKind() == memoryv1.DocumentKind_DOCUMENT_KIND_FACT {
			b.WriteString(k.read(t, ctx, f.GetPath()))
		}
	}
	return b.String()
}

// wantReason fails unless the error is of the class and has the reason.
func wantReason(t testkit.T, err, class error, reason string) {
	t.Helper()
	if errdefs.ClassOf(err) != class || errdefs.ReasonOf(err) != reason {
		t.Errorf("the error is %v (%s), want %v (%s)", err, errdefs.ReasonOf(err), class, reason)
	}
}
