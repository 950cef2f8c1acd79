package main

import (
	"fmt"
	"time"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/workspace"
)

const (
	// sharedFiles of sharedBytes are the 500 MB of the goal.
	sharedFiles, sharedBytes = 50_000, 10_000
	// setSize is how many files one change set writes while the bucket is filled.
	setSize        = 500
	sharedSearches = 150
)

// grepShared searches a bucket of 50,000 files in a shared store, for what few files hold, as people and agents do.
func grepShared(b *bench, name string, set settings) {
	var cfg workspace.Config
	files := filesystemv1.NewFilesystemServiceClient(serve(b, func(b *bench, c *workspace.Config) {
		set(b, c)
		cfg = *c
	}))
	ctx := identity.NewContext(b.ctx, identity.Identity{User: "ana"})
	total := b.size(sharedFiles)
	if cfg.Backend == workspace.BackendRedis {
		total = max(1, total/5) // for information, and all of it is memory
	}
	started := time.Now()
	for from := 0; from < total; from += setSize {
		req := &filesystemv1.ApplyChangesRequest{}
		for i := from; i < min(total, from+setSize); i++ {
			req.Changes = append(req.Changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Write{Write: &filesystemv1.WriteRequest{
				Path: fmt.Sprintf("src/p%02d/file%05d.go", i%40, i), Content: text(i, sharedBytes),
			}}})
		}
		_, err := files.ApplyChanges(ctx, req)
		b.must(err)
		if from%(setSize*20) == 0 {
			b.say("grep-%s: %d of %d files are written, %.0f a second", name, from, total, float64(from)/time.Since(started).Seconds())
		}
	}
	if cfg.Backend == workspace.BackendPostgres {
		settle(b, cfg.Postgres.Reveal())
	}
	var times []time.Duration
	for i := range sharedSearches {
		n := (i * 7919) % total
		req := &filesystemv1.GrepRequest{Pattern: fmt.Sprintf("unique_%05d", n), MaxMatches: 100}
		want := 1
		switch i % 5 {
		case 1:
			req.Pattern, req.IgnoreCase = fmt.Sprintf("UNIQUE_%05d", n), true
		case 2:
			req.Pattern, want = fmt.Sprintf("missing_%05d", n), 0
		case 3:
			req.Pattern, req.Regex = fmt.Sprintf(`uniq[a-z]+_%05d\b`, n), true
		case 4:
			req.Path = fmt.Sprintf("src/p%02d", n%40)
		}
		got := 0
		times = append(times, measure.Timed(func() { got = grep(ctx, b, files, req) }))
		if got != want {
			b.Fatalf("%q: %d lines, want %d", req.GetPattern(), got, want)
		}
	}
	p50, p99 := measure.Milliseconds(measure.Quantile(times, 0.5)), measure.Milliseconds(measure.Quantile(times, 0.99))
	b.say("grep-%s: %d searches of %d files, p50 %.1f ms, p99 %.1f ms", name, len(times), total, p50, p99)
	if name == "postgres" || name == "sqlite" {
		b.report.AtMost("grep_"+name+"_p50_ms", p50, 30)
		b.report.AtMost("grep_"+name+"_p99_ms", p99, 150)
		return
	}
	b.report.Tell("grep_"+name+"_p50_ms", p50)
	b.report.Tell("grep_"+name+"_p99_ms", p99)
}
