package definition

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/google/go-cmp/cmp"
	"time"
)

func TestFrontMatter(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]any
		body       string
		soft       bool
		bad        string // what the message says
		line       int
	}{
		{name: "plain", text: "---\nname: x\ndescription: y\n---\nbody\n---\nrule\n", want: map[string]any{"name": "x", "description": "y"}, body: "body\n---\nrule\n"},
		{name: "crlf", text: "---\r\ndescription: y\r\n---\r\nbody\r\n", want: map[string]any{"description": "y"}, body: "body\n"},
		{name: "colon in a value", text: "---\nname: x\ndescription: Prepares offers: prices, it's terms\n---\n", soft: true,
			want: map[string]any{"name": "x", "description": "Prepares offers: prices, it's terms"}},
		{name: "types", text: "---\nlist: [a, 1]\nmetadata: {\"a\":{\"b\":[1]}}\nfolded: >-\n  one\n  two\ndate: 2026-01-02\nyes: true\nnone:\n说明: 中文\n---\n",
			want: map[string]any{"list": []any{"a", 1.0}, "metadata": map[string]any{"a": map[string]any{"b": []any{1.0}}}, "folded": "one two",
				"date": "2026-01-02", "yes": true, "none": nil, "说明": "中文"}},
		{name: "empty", text: "---\n---\nbody", want: map[string]any{}, body: "body"},
		{name: "none", text: "# Title\n", bad: "does not begin", line: 1},
		{name: "no end", text: "---\nname: x\n", bad: "no end", line: 1},
		{name: "open bracket", text: "---\nname: x\ndescription: [\n---\n", bad: "not YAML", line: 3},
		{name: "key twice", text: "---\na: 1\nb: 2\na: 3\n---\n", bad: "twice", line: 4},
		{name: "alias", text: "---\na: &x [1]\nb: *x\n---\n", bad: "aliases", line: 3},
		{name: "not a mapping", text: "---\n- a\n---\n", bad: "not a mapping", line: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields, body, soft, bad := frontMatter(tt.text)
			if tt.bad != "" {
				if bad == nil || !strings.Contains(bad.message, tt.bad) || bad.line != tt.line {
					t.Errorf("got %v, %+v", fields, bad)
				}
				return
			}
			if bad != nil || (soft != nil) != tt.soft || body != tt.body {
				t.Fatalf("body %q, soft %v, bad %+v", body, soft, bad)
			}
			if diff := cmp.Diff(tt.want, fields); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObject(t *testing.T) {
	tests := []struct {
		name, text   string
		want         map[string]any
		line, column int
	}{
		{name: "comments", text: "// one\n{ /* two */ \"a\": \"// no comment\", \"b\": [1, 2,], }\n", want: map[string]any{"a": "// no comment", "b": []any{1.0, 2.0}}},
		{name: "byte-order mark", text: "\uFEFF{}", want: map[string]any{}},
		{name: "escaped quote", text: `{"a": "\"/*"}`, want: map[string]any{"a": `"/*`}},
		{name: "position", text: "{\n  \"allow\": [\"a\"\n  \"b\"]\n}", line: 3, column: 3},
		{name: "comment without end", text: "{}\n /* x", line: 2, column: 2},
		{name: "not an object", text: "[1]", line: 1, column: 1},
		{name: "null", text: "null", line: 1, column: 1},
		{name: "empty", text: "", line: 1, column: 1},
		{name: "more", text: "{} {}", line: 1, column: 5},
		{name: "cut", text: "{\n\"a\": 1", line: 2, column: 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, bad := object([]byte(tt.text), ReasonTools)
			if tt.want == nil {
				if bad == nil || bad.line != tt.line || bad.column != tt.column {
					t.Errorf("got %v, %+v, want position %d:%d", got, bad, tt.line, tt.column)
				}
				return
			}
			if bad != nil {
				t.Fatalf("%+v", bad)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzObject(f *testing.F) {
	f.Add("{/*")
	f.Add("{\"a\":1,}//")
	f.Fuzz(func(t *testing.T, text string) {
		if _, bad := object([]byte(text), ReasonTools); bad != nil && bad.line < 1 {
			t.Errorf("%+v", bad)
		}
		frontMatter("---\n" + text + "\n---\n")
	})
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"AGENTS.md":               "\uFEFFYou review code.",
		"knowledge/KNOWLEDGE.md":  "main",
		"knowledge/a/b.md":        "more",
		"skills/good/SKILL.md":    "---\nname: other\ndescription: does good\n---\nDo it.",
		"skills/good/run.sh":      "#!/bin/sh",
		"skills/bad/SKILL.md":     "---\ndescription: [\n---\n",
		"skills/_drafts/SKILL.md": "---\ndescription: draft\n---\n",
		"subagents/helper.md":     "---\ndescription: helps\nsteps: 5\n---\nYou help.",
		"subagents/blank.md":      "---\ndescription: ''\n---\n",
		"subagents/deep/x.md":     "---\ndescription: too deep\n---\n",
		"tools.json":              "{\"deny\": [\"execute\"], // no shell\n}",
		"agent.yaml":              "max_steps: 7\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "x.db")}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	view := files.NewView(store, "b", []files.Lower{{Layer: files.LayerTemplate, Tree: disktree.New(root, nil)}}, files.Limits{}, time.Now)
	build := func() Definition {
		t.Helper()
		d, err := Build(t.Context(), view)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := build()
	if d.Rules.Text != "You review code." || d.Knowledge.Text != "main" || len(d.KnowledgeFiles) != 1 || d.AgentConfig["max_steps"] != 7.0 {
		t.Errorf("got %+v", d)
	}
	if len(d.Skills) != 1 || d.Skills[0].Name != "good" || d.Skills[0].Body != "Do it." || len(d.Skills[0].Files) != 1 {
		t.Errorf("skills: %+v", d.Skills)
	}
	if len(d.Subagents) != 1 || d.Subagents[0].FrontMatter["steps"] != 5.0 {
		t.Errorf("subagents: %+v", d.Subagents)
	}
	var problems []string
	for _, p := range d.Problems {
		problems = append(problems, p.Path+" "+p.Reason)
	}
	want := []string{"skills/bad/SKILL.md FRONT_MATTER_INVALID", "skills/good/SKILL.md NAME_DIFFERS", "subagents/blank.md DESCRIPTION_MISSING"}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}

	// A bucket can't lift what its template forbids, nor change its settings.
	write := func(name, content string) {
		t.Helper()
		staged, err := store.Stage(t.Context(), strings.NewReader(content), 0)
		if err == nil {
			_, err = view.Write(context.Background(), files.Call{}, files.Write{Path: pathOf(name)}, staged)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("tools.json", "{ broken")
	write("agent.yaml", "max_steps: 1000\n")
	changed := build()
	if changed.Fingerprint == d.Fingerprint {
		t.Error("the fingerprint does not change with the definition")
	}
	if len(changed.Tools) != 2 || changed.Tools[0].Config != nil || changed.Tools[1].Config == nil || changed.AgentConfig["max_steps"] != 7.0 {
		t.Errorf("tools %+v, settings %v", changed.Tools, changed.AgentConfig)
	}
	for i := range 12 {
		write("skills/big-"+string(rune('a'+i))+"/SKILL.md", "---\ndescription: big\n---\n"+strings.Repeat("x", 900_000))
	}
	big := build()
	if n := len(big.Skills); n < 9 || n > 10 {
		t.Errorf("%d skills of 900 kB each beside a small one are used, want as many as fit 8 MiB", n)
	}
	left := 0
	for _, p := range big.Problems {
		if p.Reason == ReasonTooMany {
			left++
		}
	}
	if left+len(big.Skills) != 13 {
		t.Errorf("%d skills are used and %d reported, of 13", len(big.Skills), left)
	}
	if again := build(); again.Fingerprint != big.Fingerprint {
		t.Error("the same definition has two fingerprints")
	}
}
