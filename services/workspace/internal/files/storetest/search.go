package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"golang.org/x/text/unicode/norm"
)

func globOf(t testkit.T, pattern string) files.Glob {
	t.Helper()
	g, err := fsops.CompileGlob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return files.Glob{Pattern: g, Text: pattern}
}

func globs(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	for _, name := range []string{"a.md", "d/b.md", "d/e/c.md", "d/e/x.txt", ".h/z.md", "vendor/v.md", ".gitignore", norm.NFD.String("d/보고서.md")} {
		u.write(name, name)
	}
	u.write(".gitignore", "vendor/\n")
	glob := func(g files.Glob) string {
		t.Helper()
		var out []string
		token := ""
		for {
			page, err := u.Glob(u.ctx, g, 2, token)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				out = append(out, norm.NFC.String(shown(e)))
			}
			if token = page.Next; token == "" {
				return strings.Join(out, " ")
			}
		}
	}
	all := globOf(t, "*.md")
	if got := glob(all); got != "a.md d/b.md d/e/c.md d/보고서.md" {
		t.Errorf("got %s", got)
	}
	all.Ignored = true
	if got := glob(all); got != "a.md d/b.md d/e/c.md d/보고서.md vendor/v.md" {
		t.Errorf("with ignored files: %s", got)
	}
	below := globOf(t, "e/*")
	below.Dir = path("d")
	if got := glob(below); got != "d/e/c.md d/e/x.txt" {
		t.Errorf("below d: %s", got)
	}
	dirs := globOf(t, "d/**")
	dirs.Directories = true
	if got := glob(dirs); got != "d/b.md d/e/ d/e/c.md d/e/x.txt d/보고서.md" {
		t.Errorf("with directories: %s", got)
	}
	if got := glob(globOf(t, "none/*")); got != "" {
		t.Errorf("nothing matches, got %s", got)
	}
	if _, err := u.Glob(u.ctx, below, 1, "zz"); err == nil {
		t.Error("a bad token was taken")
	}
}

func grepLines(u user, pattern string) []string {
	u.Helper()
	out, _ := grep(u, files.Grep{}, fsops.GrepRequest{Pattern: pattern})
	return out
}

func grep(u user, g files.Grep, req fsops.GrepRequest) ([]string, files.GrepEnd) {
	u.Helper()
	var err error
	if g.Search, err = fsops.CompileGrep(req); err != nil {
		u.Fatal(err)
	}
	g.MaxTime = time.Minute
	if g.MaxMatches == 0 {
		g.MaxMatches = 1000
	}
	if g.MaxPerFile == 0 {
		g.MaxPerFile = g.MaxMatches
	}
	out := []string{}
	end, err := u.Grep(u.ctx, g, func(h files.Hit) error {
		out = append(out, fmt.Sprintf("%s:%d:%s", h.Path, h.Line, h.Text))
		return nil
	})
	if err != nil {
		u.Fatal(err)
	}
	return out, end
}

func greps(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("a.txt", "x\nneedle one\n")
	u.write("d/b.md", "needle two")
	u.write("bin", "needle\x00")
	u.write("big.log", strings.Repeat("filler line\n", 200_000)+"needle three\n")
	u.write("v/x", "needle four")
	u.write(".gitignore", "v\n")
	u.write("many", strings.Repeat("dup\n", 50))
	lines, end := grep(u, files.Grep{}, fsops.GrepRequest{Pattern: "needle"})
	if want := "[a.txt:2:needle one big.log:200001:needle three d/b.md:1:needle two]"; fmt.Sprint(lines) != want || end.Reason != "" || end.BinaryFiles != 1 {
		t.Errorf("got %s, %+v\nwant %s", lines, end, want)
	}
	if lines, _ := grep(u, files.Grep{Ignored: true}, fsops.GrepRequest{Pattern: "NEEDLE F", IgnoreCase: true}); fmt.Sprint(lines) != "[v/x:1:needle four]" {
		t.Errorf("ignored files: %s", lines)
	}
	if lines, _ := grep(u, files.Grep{Glob: globOf(t, "*.md").Pattern}, fsops.GrepRequest{Pattern: "n.*o$", Regex: true}); fmt.Sprint(lines) != "[d/b.md:1:needle two]" {
		t.Errorf("only *.md: %s", lines)
	}
	if lines, _ := grep(u, files.Grep{Path: path("a.txt")}, fsops.GrepRequest{Pattern: "needle"}); fmt.Sprint(lines) != "[a.txt:2:needle one]" {
		t.Errorf("one file: %s", lines)
	}
	lines, end = grep(u, files.Grep{MaxMatches: 10}, fsops.GrepRequest{Pattern: "dup"})
	if len(lines) != 10 || end.Reason != "max_matches" || end.Matches != 10 {
		t.Errorf("%d matches, %+v", len(lines), end)
	}
	lines, end = grep(u, files.Grep{MaxMatches: 50}, fsops.GrepRequest{Pattern: "dup"})
	if len(lines) != 50 || end.Reason != "" {
		t.Errorf("exactly as many as allowed: %d matches, %+v", len(lines), end)
	}
	if lines, _ := grep(u, files.Grep{MaxPerFile: 3}, fsops.GrepRequest{Pattern: "dup"}); len(lines) != 3 {
		t.Errorf("%d matches in one file, want 3", len(lines))
	}
	search, err := fsops.CompileGrep(fsops.GrepRequest{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	end, err = u.Grep(u.ctx, files.Grep{Search: search, MaxMatches: 10, MaxPerFile: 10, MaxTime: time.Nanosecond}, func(files.Hit) error { return nil })
	if err != nil || end.Reason != "max_time" {
		t.Errorf("out of time: %+v, %v", end, err)
	}
	_, err = u.Grep(u.ctx, files.Grep{Search: search, Path: path("none"), MaxMatches: 1, MaxTime: time.Minute}, nil)
	u.fails(err, fsops.ReasonPathNotFound)
}
