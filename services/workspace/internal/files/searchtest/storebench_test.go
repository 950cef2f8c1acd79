package searchtest_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/searchtest"
)

const benchSpace = files.Space("default/user/coder/ana")

// selective is what agents look for: names and phrases that few files hold.
var selective = []fsops.GrepRequest{
	{Pattern: "xylophone"},
	{Pattern: "Quixotic_Handler"},
	{Pattern: "quixotic_handler", IgnoreCase: true},
	{Pattern: "wolpertinger"},
	{Pattern: `MAX_SHARD_ID`},
	{Pattern: "보고서"},
	{Pattern: `(xylophone|wolpertinger)s? plays`, Regex: true},
	{Pattern: `^type Quixotic\w+ struct`, Regex: true},
	{Pattern: "GRÖSSE DER", IgnoreCase: true},
	{Pattern: `const MAX_EPOCH_ID = 0x[0-9a-f]+`, Regex: true},
}

// benchmarkStore measures selective searches of 50,000 files in a store, and writes of 2 KB beside them.
func benchmarkStore(b *testing.B, store files.Store) {
	start := time.Now()
	total, err := searchtest.Fill(b.Context(), store, benchSpace, 50_000)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("filled with %d MB in %v", total>>20, time.Since(start).Round(time.Millisecond))
	search := func(b *testing.B, req fsops.GrepRequest) (time.Duration, int64) {
		g, err := fsops.CompileGrep(req)
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		view := files.NewView(store, benchSpace, nil, files.Limits{}, time.Now)
		end, err := view.Grep(b.Context(), files.Grep{Search: g, MaxMatches: 10_000, MaxPerFile: 10_000, MaxTime: time.Minute}, func(files.Hit) error { return nil })
		if err != nil || end.Reason != "" {
			b.Fatal(err, end)
		}
		return time.Since(start), end.Matches
	}
	first, _ := search(b, selective[0])
	b.Logf("the first search, which reads the index, took %v", first.Round(time.Millisecond))
	b.Run("selective", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			for _, req := range selective {
				d, matches := search(b, req)
				if len(times) < len(selective) {
					b.Logf("%-40s %6d matches %v", req.Pattern, matches, d.Round(100*time.Microsecond))
				}
				if times = append(times, d); d > 100*time.Millisecond {
					b.Logf("%s took %v", req.Pattern, d.Round(time.Millisecond))
				}
			}
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("after a write", func(b *testing.B) {
		var times []time.Duration
		n := 0
		for b.Loop() {
			n++
			write(b, store, fmt.Sprintf("notes/%d.md", n%100), bytes.Repeat([]byte("some words of a note\n"), 100))
			d, _ := search(b, selective[n%len(selective)])
			times = append(times, d)
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("write 2 KB", func(b *testing.B) {
		n := 0
		content := bytes.Repeat([]byte("some words of a note\n"), 100)
		for b.Loop() {
			n++
			write(b, store, fmt.Sprintf("written/%d.md", n%1000), content)
		}
	})
}

func write(b *testing.B, store files.Store, name string, content []byte) {
	staged, err := store.Stage(b.Context(), bytes.NewReader(content), 0)
	if err == nil {
		_, err = store.Update(b.Context(), benchSpace, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
			_, err := tx.Put(ctx, files.File{Path: fsops.PathOf(name), Content: staged, Mode: 0o644})
			return nil, err
		})
	}
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkGrepSQLite(b *testing.B) {
	store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "files.db")}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	benchmarkStore(b, store)
}

func BenchmarkGrepPostgres(b *testing.B) {
	store, err := postgres.Open(b.Context(), postgres.Config{DSN: testkit.Postgres(b)}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	benchmarkStore(b, store)
}
