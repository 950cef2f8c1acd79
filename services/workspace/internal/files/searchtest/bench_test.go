package searchtest_test

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/searchtest"
)

var patterns = []struct {
	name string
	req  fsops.GrepRequest
	glob string
}{
	{"rare word", fsops.GrepRequest{Pattern: "xylophone"}, ""},
	{"common word", fsops.GrepRequest{Pattern: "return"}, ""},
	{"no match", fsops.GrepRequest{Pattern: "wolpertinger"}, ""},
	{"ignore-case literal", fsops.GrepRequest{Pattern: "heartbeat", IgnoreCase: true}, ""},
	{"ignore-case rare", fsops.GrepRequest{Pattern: "quixotic_handler", IgnoreCase: true}, ""},
	{"alternation", fsops.GrepRequest{Pattern: "xylophone|Quixotic|wolpertinger", Regex: true}, ""},
	{"anchored", fsops.GrepRequest{Pattern: `^type \w+ struct`, Regex: true}, ""},
	{"class and repeat", fsops.GrepRequest{Pattern: `[A-Z]{3}_[A-Z]+_ID = 0x[0-9a-f]{8}`, Regex: true}, ""},
	{"class without literal", fsops.GrepRequest{Pattern: `[A-Z]{4,}_[A-Z]`, Regex: true}, ""},
	{"unicode literal", fsops.GrepRequest{Pattern: "보고서"}, ""},
	{"by path", fsops.GrepRequest{Pattern: "xylophone"}, "*.py"},
}

// BenchmarkGrepLocal measures searches of 40,000 files on local disk, and ripgrep with the same question in turn. The metric ratio is that of the best times: what else the
// machine does adds to the others. The metric cpu-ratio is that of the time on processors, which it leaves alone.
func BenchmarkGrepLocal(b *testing.B) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("needs ripgrep")
	}
	dir := b.TempDir()
	if err := searchtest.Sources(40_000, searchtest.WriteTo(dir)); err != nil {
		b.Fatal(err)
	}
	const space = files.Space("default/user/coder/ana")
	store, err := local.Open(b.Context(), local.Config{Dir: b.TempDir(), Mounts: map[files.Space]string{space: dir}}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) {
			search, err := fsops.CompileGrep(p.req)
			if err != nil {
				b.Fatal(err)
			}
			g := files.Grep{Search: search, MaxMatches: 1 << 30, MaxPerFile: 1 << 30, MaxTime: time.Minute}
			if p.glob != "" {
				if g.Glob, err = fsops.CompileGlob(p.glob); err != nil {
					b.Fatal(err)
				}
			}
			args := searchtest.Ripgrep(p.req, p.glob)
			ours, theirs := time.Hour, time.Hour
			ourCPU, theirCPU := time.Hour, time.Hour
			var lines int64
			for b.Loop() {
				start, used := time.Now(), processor(b)
				view := files.NewView(store, space, nil, files.Limits{}, time.Now)
				end, err := view.Grep(b.Context(), g, func(files.Hit) error { return nil })
				if err != nil || end.Reason != "" {
					b.Fatal(err, end)
				}
				ours, ourCPU = min(ours, time.Since(start)), min(ourCPU, processor(b)-used)
				lines = end.Matches
				start = time.Now()
				out, used := ripgrep(b.Context(), b, rg, dir, args)
				theirs, theirCPU = min(theirs, time.Since(start)), min(theirCPU, used)
				if n := int64(bytes.Count(out, []byte("\n"))); n != lines {
					b.Fatalf("%d lines, ripgrep has %d", lines, n)
				}
			}
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
			b.ReportMetric(float64(ourCPU)/float64(theirCPU), "cpu-ratio")
			b.ReportMetric(theirs.Seconds()*1000, "rg-ms")
			b.ReportMetric(ours.Seconds()*1000, "ms")
			b.ReportMetric(float64(lines), "lines")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processor is the time that this process has had on processors.
func processor(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ripgrep(ctx context.Context, t testing.TB, rg, dir string, args []string) ([]byte, time.Duration) {
	cmd := exec.CommandContext(ctx, rg, args...)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && len(data) > 0 {
		t.Fatal(err)
	}
	return data, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
