package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/workspace"
)

// search is one search, in the words of both programs.
type search struct {
	pattern     string
	regex, fold bool
}

// searches are the ten of the comparison: rare and frequent words, with and without regard to case, expressions with and without a literal.
var searches = []search{
	{pattern: "unique_12345"}, {pattern: "RareMarker"}, {pattern: "nowhere to be found"}, {pattern: "raremarker", fold: true}, {pattern: "UNIQUE_2000", fold: true},
	{pattern: "GRÜSSE|grüße", regex: true, fold: true}, {pattern: `unique_1[0-9]{3}7\b`, regex: true}, {pattern: `RareMarker.*files`, regex: true}, {pattern: `[0-9]{5}77`, regex: true},
	{pattern: `(?:Grüße|RareMarker) (?:aus|of)`, regex: true},
}

// localFiles and localBytes are the tree: about 160 MB.
const (
	localFiles, localBytes = 40_000, 4000
	grepRounds             = 5
)

// grepLocal compares the search of a bucket of plain files with ripgrep in the same directory.
func grepLocal(b *bench) {
	if _, err := exec.LookPath("rg"); err != nil {
		b.Skip("ripgrep is not installed")
	}
	dir := b.TempDir()
	for i := range b.size(localFiles) {
		path := filepath.Join(dir, fmt.Sprintf("src/p%02d/d%d/file%05d.go", i%40, i%7, i))
		if i < 280 {
			b.must(os.MkdirAll(filepath.Dir(path), 0o755))
		}
		b.must(os.WriteFile(path, text(i, localBytes-i%2000), 0o644))
	}
	files := filesystemv1.NewFilesystemServiceClient(serve(b, func(_ *bench, cfg *workspace.Config) {
		cfg.Backend, cfg.Workspace, cfg.Data = workspace.BackendLocal, dir, b.TempDir()
	}))
	ctx := identity.NewContext(b.ctx, identity.Identity{Scope: identity.ScopeAgent})
	var ratios []float64
	worst, of := 0.0, ""
	for _, s := range searches {
		want, got := 0, 0
		base, took := measure.Turns(grepRounds, func() { want = ripgrep(b, dir, s) }, func() {
			got = grep(ctx, b, files, &filesystemv1.GrepRequest{Pattern: s.pattern, Regex: s.regex, IgnoreCase: s.fold, MaxMatches: 10_000})
		})
		if got != want {
			b.Fatalf("%q: %d lines, ripgrep finds %d", s.pattern, got, want)
		}
		ratio := float64(took) / float64(base)
		b.say("grep-local %-28q %5d lines, ripgrep %6.1f ms, gantry %6.1f ms, ratio %.2f", s.pattern, got, measure.Milliseconds(base), measure.Milliseconds(took), ratio)
		ratios = append(ratios, ratio)
		if ratio > worst {
			worst, of = ratio, s.pattern
		}
	}
	b.report.AtMost("grep_local_ratio", measure.Round2(measure.Geometric(ratios)), 1.1)
	b.report.Tell("grep_local_worst_ratio", measure.Round2(worst))
	b.report.Tell("grep_local_worst_pattern", of)
}

// ripgrep counts the lines that it finds.
func ripgrep(b *bench, dir string, s search) int {
	args := []string{"--no-config", "--no-heading", "--line-number", "--column", "--color=never"}
	if !s.regex {
		args = append(args, "--fixed-strings")
	}
	if s.fold {
		args = append(args, "--ignore-case")
	}
	cmd := exec.CommandContext(b.ctx, "rg", append(args, "--", s.pattern, dir)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: nothing found
		b.Fatalf("rg: %v", err)
	}
	lines := 0
	for _, c := range out {
		if c == '\n' {
			lines++
		}
	}
	return lines
}

// grep counts the lines that the service finds.
func grep(ctx context.Context, b *bench, files filesystemv1.FilesystemServiceClient, req *filesystemv1.GrepRequest) int {
	stream, err := files.Grep(ctx, req)
	b.must(err)
	lines := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return lines
		}
		b.must(err)
		if m.GetMatch() != nil {
			lines++
		}
		if end := m.GetEnd(); end != nil && end.GetTruncated() {
			b.Fatalf("the search for %q is not complete: %s", req.GetPattern(), end.GetReason())
		}
	}
}
