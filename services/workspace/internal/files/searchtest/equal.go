package searchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/google/go-cmp/cmp"
)

// RunEqual asks a store and ripgrep the same [Questions] over the same files, and compares path, line number, column, text and lines of context.
func RunEqual(t testkit.T, open func(testkit.T) files.Store) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		testkit.Skip(t, "ripgrep", "%v (apt-get install ripgrep)", err)
	}
	dir, store := t.TempDir(), open(t)
	view := files.NewView(store, "default/user/coder/ana", nil, files.Limits{}, time.Now)
	put := WriteTo(dir)
	for name, content := range Nasty() {
		if err := put(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		staged, err := store.Stage(t.Context(), strings.NewReader(content), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := view.Write(t.Context(), files.Call{}, files.Write{Path: fsops.PathOf(name)}, staged); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range Questions {
		t.Run(fmt.Sprintf("%+v", q), func(t testkit.T) {
			got, paths := ask(t, view, q)
			if !slices.IsSorted(paths) {
				t.Errorf("paths are not in order: %q", paths)
			}
			if diff := cmp.Diff(askRipgrep(t, rg, dir, q), got); diff != "" {
				t.Errorf("(-ripgrep +ours):\n%.4000s", diff)
			}
		})
	}
}

// answer is a line that was found.
type answer struct {
	Path          string
	Line, Column  int64
	Text          string
	Before, After []string
}

func (q Question) request() fsops.GrepRequest {
	return fsops.GrepRequest{Pattern: q.Pattern, Regex: q.Regex, IgnoreCase: q.IgnoreCase, Before: q.Before, After: q.After}
}

func ask(t testkit.T, view *files.View, q Question) (map[string]answer, []string) {
	t.Helper()
	search, err := fsops.CompileGrep(q.request())
	if err != nil {
		t.Fatal(err)
	}
	g := files.Grep{Search: search, Path: fsops.PathOf(q.Path), Ignored: q.Ignored, MaxMatches: 1 << 20, MaxPerFile: 1 << 20, MaxTime: time.Minute}
	if q.Glob != "" {
		if g.Glob, err = fsops.CompileGlob(q.Glob); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]answer{}
	var paths []string
	end, err := view.Grep(t.Context(), g, func(h files.Hit) error {
		paths = append(paths, h.Path.Key())
		out[fmt.Sprintf("%s:%d", h.Path, h.Line)] = answer{h.Path.String(), h.Line, h.Column, h.Text, h.Before, h.After}
		return nil
	})
	if err != nil || end.Reason != "" || end.Matches != int64(len(out)) {
		t.Fatalf("%+v, %d answers, %v", end, len(out), err)
	}
	return out, paths
}

// event is a line of ripgrep's JSON.
type event struct {
	Type string
	Data struct {
		Path, Lines struct {
			Text  *string
			Bytes []byte
		}
		Line       int64 `json:"line_number"`
		Submatches []struct{ Start int64 }
	}
}

func askRipgrep(t testkit.T, rg, dir string, q Question) map[string]answer {
	t.Helper()
	args := append([]string{"--json", "--text", fmt.Sprint("--before-context=", q.Before), fmt.Sprint("--after-context=", q.After)}, Ripgrep(q.request(), "")...)
	if q.Ignored {
		args = slices.DeleteFunc(append([]string{"--no-ignore"}, args...), func(a string) bool { return a == "--glob=!.git/" })
	}
	if q.Path != "" {
		// What files above exclude counts.
		args = slices.DeleteFunc(args, func(a string) bool { return a == "--no-ignore-parent" })
		args[len(args)-1] = q.Path
	}
	cmd := exec.CommandContext(t.Context(), rg, args...)
	cmd.Dir = dir
	data, err := cmd.Output()
	if err != nil && len(data) == 0 {
		t.Fatal(err)
	}
	lines, found := map[string]string{}, map[string]answer{}
	for row := range bytes.Lines(data) {
		var e event
		if err := json.Unmarshal(row, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != "match" && e.Type != "context" {
			continue
		}
		path := strings.TrimPrefix(textOf(e.Data.Path.Text, e.Data.Path.Bytes), "./")
		at := fmt.Sprintf("%s:%d", path, e.Data.Line)
		lines[at] = shown(textOf(e.Data.Lines.Text, e.Data.Lines.Bytes))
		if e.Type == "match" {
			found[at] = answer{Path: path, Line: e.Data.Line, Column: e.Data.Submatches[0].Start + 1, Text: lines[at]}
		}
	}
	isBinary := map[string]bool{}
	for _, a := range found {
		if _, known := isBinary[a.Path]; !known {
			isBinary[a.Path] = binary(t, filepath.Join(dir, a.Path))
		}
	}
	maps.DeleteFunc(found, func(_ string, a answer) bool { return !globbed(q.Glob, a.Path) || isBinary[a.Path] })
	for at, a := range found {
		for l := a.Line - int64(q.Before); l <= a.Line+int64(q.After); l++ {
			text, ok := lines[fmt.Sprintf("%s:%d", a.Path, l)]
			switch {
			case !ok:
			case l < a.Line:
				a.Before = append(a.Before, text)
			case l > a.Line:
				a.After = append(a.After, text)
			}
		}
		found[at] = a
	}
	return found
}

func textOf(text *string, data []byte) string {
	if text != nil {
		return *text
	}
	return string(data)
}

// shown is a line as an answer shows it.
func shown(line string) string {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if len(line) > fsops.MaxMatchText {
		end := 0
		for n := 0; n < fsops.MaxMatchText && end < len(line); n++ {
			_, size := utf8.DecodeRuneInString(line[end:])
			end += size
		}
		line = line[:end]
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}

// globbed says whether a pattern matches a path, by the library that the semantics are named after. Ripgrep's own globs would bring back excluded files.
func globbed(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return doublestar.MatchUnvalidated(strings.TrimPrefix(pattern, "/"), path)
}

func binary(t testkit.T, path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fsops.IsBinary(data)
}
