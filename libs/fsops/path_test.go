package fsops

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"golang.org/x/text/unicode/norm"
)

func TestParsePath(t *testing.T) {
	long := strings.Repeat("長", 200)
	tests := []struct {
		in, want, problem string
	}{
		{in: "", want: ""},
		{in: "/", want: ""},
		{in: ".", want: ""},
		{in: "a//b/./c", want: "a/b/c"},
		{in: "/etc/passwd", want: "etc/passwd"},
		{in: "a/b/../c", want: "a/c"},
		{in: "a/..", want: ""},
		{in: "some..dir/note.txt", want: "some..dir/note.txt"},
		{in: `back\slash`, want: `back\slash`},
		{in: `..\x`, want: `..\x`},
		{in: "a\nb.txt", want: "a\nb.txt"},
		{in: "log 09:41.txt", want: "log 09:41.txt"},
		{in: "~/x", want: "~/x"},
		{in: "x/.gantry-runtime", want: "x/.gantry-runtime"},
		{in: "..", problem: "leaves the root"},
		{in: "../x", problem: "leaves the root"},
		{in: "/../etc/passwd", problem: "leaves the root"},
		{in: "a/../../x", problem: "leaves the root"},
		{in: "a\x00b", problem: "holds a NUL byte"},
		{in: long, problem: "has a name of over 255 bytes"},
		{in: strings.Repeat("a/", 2049), problem: "has over 4096 bytes"},
		{in: ".gantry-runtime", problem: "names a reserved place"},
		{in: "/.Gantry-Runtime/buckets", problem: "names a reserved place"},
		{in: "a/../.gantry-runtime/x", problem: "names a reserved place"},
	}
	for _, tt := range tests {
		p, err := ParsePath(tt.in)
		if tt.problem == "" {
			if err != nil || p.String() != tt.want {
				t.Errorf("ParsePath(%q) = %q, %v, want %q", tt.in, p, err, tt.want)
			}
			continue
		}
		var e *errdefs.Error
		if !errors.As(err, &e) || e.Reason != ReasonPathInvalid || e.Meta["problem"] != tt.problem {
			t.Errorf("ParsePath(%q) = %q, %v, want PATH_INVALID %q", tt.in, p, err, tt.problem)
		}
	}
}

func TestParseFilePath(t *testing.T) {
	for in, reason := range map[string]string{
		"": ReasonIsDirectory, "/": ReasonIsDirectory, "a/..": ReasonIsDirectory, "a/": ReasonPathInvalid, "a/.": ReasonPathInvalid, "a/b/..": ReasonPathInvalid,
	} {
		if _, err := ParseFilePath(in); errdefs.ReasonOf(err) != reason {
			t.Errorf("ParseFilePath(%q) = %v, want %s", in, err, reason)
		}
	}
	if p, err := ParseFilePath("a/../b"); err != nil || p.String() != "b" {
		t.Errorf("got %q, %v", p, err)
	}
}

func TestPathForms(t *testing.T) {
	nfd := PathOf(norm.NFD.String("보고서"))
	nfc := PathOf(norm.NFC.String("보고서"))
	if nfd.Key() != nfc.Key() || nfd.String() == nfc.String() {
		t.Errorf("the keys of two normal forms must be equal and the bytes kept")
	}
	p := PathOf("a/b/c.txt")
	if got := p.Rebase(PathOf("a/b"), PathOf("x")).String(); got != "x/c.txt" {
		t.Errorf("Rebase = %q", got)
	}
	if got := p.Rebase(p, PathOf("y.txt")).String(); got != "y.txt" {
		t.Errorf("Rebase of itself = %q", got)
	}
	if p.Name() != "c.txt" || p.Parent().String() != "a/b" || PathOf("a").Parent().String() != "" {
		t.Errorf("name %q, parent %q", p.Name(), p.Parent())
	}
	if above := p.Ancestors(); len(above) != 2 || above[0].String() != "a" || above[1].String() != "a/b" {
		t.Errorf("ancestors = %v", above)
	}
	if !p.Under(PathOf("a")) || !p.Under(Path{}) || p.Under(p) || PathOf("ab").Under(PathOf("a")) || (Path{}).Under(Path{}) {
		t.Error("Under is wrong")
	}
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"", "a/../..", "/a//b/", "é/é", "\xff/x", ".gantry-runtime/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ParsePath(in)
		if err != nil {
			if errdefs.ReasonOf(err) != ReasonPathInvalid {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		for _, name := range strings.Split(p.String(), "/") {
			if !p.IsRoot() && (name == "" || name == "." || name == "..") || strings.Contains(name, "\x00") {
				t.Fatalf("%q gave %q", in, p)
			}
		}
		again, err := ParsePath(p.String())
		if err != nil || again != p {
			t.Fatalf("%q gave %q, and that %q, %v", in, p, again, err)
		}
	})
}
