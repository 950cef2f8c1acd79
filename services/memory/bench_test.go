package memory_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/memory"
	"github.com/gantry-agents/gantry/services/memory/memorytest/memfs"
)

// The words of the facts that the benchmarks save; mixed radix makes every fact different.
var (
	benchWho  = []string{"Ana", "Ben", "Chiyo", "Dmitri", "Eva", "Farid", "Grace", "Hugo", "Ines", "Jonas"}
	benchVerb = []string{"prefers", "moved", "booked", "reviewed", "cancelled", "measured", "translated", "deployed", "painted", "sold"}
	benchWhat = []string{"the invoice", "the gateway", "大阪の会議", "발표 자료", "the parser", "a blue heron", "the quarterly report", "src/core/parse.go", "the staging database", "两张车票"}
)

func benchFact(i int) string {
	return fmt.Sprintf("%s %s %s for reason %d", benchWho[i%10], benchVerb[i/10%10], benchWhat[i/100%10], i)
}

// benchMemory gives a client of a service whose bucket has n facts, through the whole chain and an index on disk.
func benchMemory(b *testing.B, n int) (context.Context, memoryv1.MemoryServiceClient) {
	b.Helper()
	w := newWorld(b, memfs.Faults{}, access.Config{})
	client := memoryv1.NewMemoryServiceClient(w.memory(b, "m", onDisk(b), memory.Deps{}).Memory)
	ctx := identity.NewContext(b.Context(), identity.Identity{Agent: "bench", User: "ana", Session: "s"})
	for i := 0; i < n; i += 100 {
		req := &memoryv1.SaveFactsRequest{}
		for j := i; j < min(i+100, n); j++ {
			req.Facts = append(req.Facts, &memoryv1.NewFact{Text: benchFact(j)})
		}
		if _, err := client.SaveFacts(ctx, req); err != nil {
			b.Fatal(err)
		}
	}
	return ctx, client
}

// percentiles reports the median and the 95th of a hundred.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// BenchmarkSearch searches a bucket of 1,000 facts.
func BenchmarkSearch(b *testing.B) {
	ctx, client := benchMemory(b, 1000)
	queries := []string{"what did Ana book?", "invoice", "大阪", "발표", "quarterly report Grace", "src/core/parse.go", "heron"}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		started := time.Now()
		answer, err := client.Search(ctx, &memoryv1.SearchRequest{Query: queries[i%len(queries)]})
		if err != nil || len(answer.GetHits()) == 0 {
			b.Fatal(answer, err)
		}
		took = append(took, time.Since(started))
	}
	percentiles(b, took)
}

// BenchmarkSaveAndSearch saves a fact into a bucket of 1,000 and finds it.
func BenchmarkSaveAndSearch(b *testing.B) {
	ctx, client := benchMemory(b, 1000)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		started := time.Now()
		saved, err := client.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{{Text: fmt.Sprintf("unseen%d arrives", i)}}})
		if err != nil {
			b.Fatal(err)
		}
		answer, err := client.Search(ctx, &memoryv1.SearchRequest{Query: fmt.Sprintf("unseen%d", i), MinCursor: saved.GetCursor()})
		if err != nil || len(answer.GetHits()) == 0 {
			b.Fatal(answer, err)
		}
		took = append(took, time.Since(started))
	}
	percentiles(b, took)
}
