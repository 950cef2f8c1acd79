package fsops

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"golang.org/x/text/unicode/norm"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern string
		match   []string
		miss    []string
	}{
		{"*.md", []string{"a.md", "x/b.md", "x/y/c.md"}, []string{"a.txt", ".a.md", ".x/a.md", "amd"}},
		{"/*.md", []string{"a.md"}, []string{"x/a.md"}},
		{"**/hello.txt", []string{"hello.txt", "a/hello.txt", "a/b/hello.txt"}, []string{"xhello.txt"}},
		{"**", []string{"a", "a/b", "a/b/c"}, []string{".a", "a/.b", ".a/b"}},
		{"**/*.txt", []string{"a.txt", "a/b.txt"}, []string{".hidden/b.txt"}},
		{"sub/*", []string{"sub/a"}, []string{"sub/a/b", "sub", "x/sub/a"}},
		{"sub/", []string{"sub/a", "sub/a/b"}, []string{"sub", "other/a"}},
		{"{a,sib}.txt", []string{"a.txt", "sib.txt", "x/a.txt"}, []string{"b.txt"}},
		{"{x/y,z}/*.go", []string{"x/y/a.go", "z/a.go"}, []string{"x/a.go", "y/a.go"}},
		{"{a,b{c,d}}", []string{"a", "bc", "bd"}, []string{"b", "bcd"}},
		{"a/**/z", []string{"a/z", "a/b/z", "a/b/c/z"}, []string{"az", "b/a/z", "a/.b/z"}},
		{"a/**/b/**/c", []string{"a/b/c", "a/x/b/y/c", "a/b/b/c/c"}, []string{"a/c", "a/b/x"}},
		{"?.txt", []string{"a.txt", "é.txt"}, []string{"ab.txt", ".txt"}},
		{"[a-c].txt", []string{"b.txt"}, []string{"d.txt"}},
		{"[!a-c].txt", []string{"d.txt"}, []string{"b.txt"}},
		{`[\]{}].txt`, []string{"].txt", "{.txt"}, []string{"a.txt"}},
		{".*", []string{".hidden", "x/.hidden"}, []string{"a", ".x/.hidden"}},
		{".github/**", []string{".github/a/b"}, []string{"x/.github/a"}},
		{`\*.md`, []string{"*.md"}, []string{"a.md"}},
		{`back\\slash`, []string{`back\slash`}, []string{"backslash"}},
		{"**/*보고서*", []string{norm.NFC.String("보고서-1.md"), norm.NFD.String("보고서-2.md"), "x/보고서"}, nil},
		{"a**b", []string{"ab", "axxb", "x/ab"}, []string{"a/b"}},
		{"./a", []string{"a"}, []string{"b/a"}},
	}
	for _, tt := range tests {
		g, err := CompileGlob(tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		for _, p := range tt.match {
			if !g.Match(PathOf(p)) {
				t.Errorf("%q does not match %q", tt.pattern, p)
			}
		}
		for _, p := range tt.miss {
			if g.Match(PathOf(p)) {
				t.Errorf("%q matches %q", tt.pattern, p)
			}
		}
		if g.Match(Path{}) {
			t.Errorf("%q matches the root", tt.pattern)
		}
	}
}

func TestGlobInvalid(t *testing.T) {
	many := strings.Repeat("{a,b}", 12)
	for pattern, position := range map[string]string{"[": "0", "a[": "1", "ab{c,d": "2", `x\`: "1", "a\x00": "1", many: "0"} {
		_, err := CompileGlob(pattern)
		var e *errdefs.Error
		if !errors.As(err, &e) || e.Reason != ReasonPatternInvalid || !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		if e.Meta["position"] != position {
			t.Errorf("%q: position %s, want %s", pattern, e.Meta["position"], position)
		}
	}
}

func TestGlobPrefix(t *testing.T) {
	for pattern, want := range map[string]string{
		"*.md": "", "a/b/*.md": "a/b", "a/b": "a", "a/{b,c}/d": "a", "{a/b,a/c}/*": "a", "a/**": "a", "/x": "", "a/": "a",
	} {
		g, err := CompileGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Prefix().String(); got != want {
			t.Errorf("prefix of %q = %q, want %q", pattern, got, want)
		}
	}
}

// Patterns that make a naive matcher go back and forth end at once.
func TestGlobTime(t *testing.T) {
	g, err := CompileGlob(strings.Repeat("**/a*a*a*/", 30) + "z")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	g.Match(PathOf(strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab/", 100) + "y"))
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

// Whatever matches lies below the prefix, and below directories that may hold matches.
func FuzzGlob(f *testing.F) {
	f.Add("a/**/{b,c}*", "a/x/b1")
	f.Add("**/.x/*", ".x/y")
	f.Add("[^]a]", "b")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		g, err := CompileGlob(pattern)
		if err != nil {
			if errdefs.ReasonOf(err) != ReasonPatternInvalid {
				t.Fatal(err)
			}
			return
		}
		p, err := ParsePath(path)
		if err != nil || !g.Match(p) {
			return
		}
		if !g.MayMatchName(p.Name()) {
			t.Fatalf("%q matches %q, yet no path of that name", pattern, p)
		}
		if prefix := g.Prefix(); !p.Under(prefix) {
			t.Fatalf("%q matches %q, which is not below %q", pattern, p, prefix)
		}
		for _, dir := range p.Ancestors() {
			if !g.MayMatchBelow(dir) {
				t.Fatalf("%q matches %q, yet nothing below %q may match", pattern, p, dir)
			}
		}
	})
}

func TestIgnore(t *testing.T) {
	var g Ignore
	g.Add(Path{}, []byte("# comment\nvendor/\n*.log\n!keep.log\n/top.txt\ndocs/*.tmp\n\\#odd\nnode_modules\n"))
	g.Add(PathOf("sub"), []byte("only.txt\r\n/deep/x\n"))
	tests := []struct {
		path  string
		isDir bool
		want  bool
	}{
		{"vendor", true, true}, {"a/vendor", true, true}, {"vendor", false, false}, {"x.log", false, true}, {"a/b/x.log", false, true},
		{"keep.log", false, false}, {"top.txt", false, true}, {"a/top.txt", false, false}, {"docs/a.tmp", false, true},
		{"docs/x/a.tmp", false, false}, {"#odd", false, true}, {"node_modules", true, true}, {"only.txt", false, false},
		{"sub/only.txt", false, true}, {"sub/x/only.txt", false, true}, {"sub/deep/x", false, true}, {"deep/x", false, false},
		{".git", true, true}, {"a/.git", true, true}, {".gitignore", false, false},
	}
	for _, tt := range tests {
		if got := g.Ignored(PathOf(tt.path), tt.isDir); got != tt.want {
			t.Errorf("Ignored(%q, dir %v) = %v, want %v", tt.path, tt.isDir, got, tt.want)
		}
	}
	if !g.IgnoredBelow(PathOf("vendor/a/b.go"), false) || g.IgnoredBelow(PathOf("src/b.go"), false) {
		t.Error("what lies below an excluded directory is excluded, and nothing else")
	}
}
