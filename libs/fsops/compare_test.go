package fsops

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"from nothing", "", "a\nb\n", "--- a/f\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"to nothing", "a\n", "", "--- a/f\n+++ b/f\n@@ -1,1 +0,0 @@\n-a\n"},
		{"one line", "1\n2\n3\n4\n5\n", "1\n2\nx\n4\n5\n", "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n"},
		{"added at the end", "1\n2\n", "1\n2\n3\n", "--- a/f\n+++ b/f\n@@ -2,1 +2,2 @@\n 2\n+3\n"},
		{"no line break at the end", "1\n2", "1\n2\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+2\n"},
		{"binary", "a\x00", "b\n", "Binary files a/f and b/f differ\n"},
	} {
		if got, cut := Unified("f", []byte(c.before), []byte(c.after), 1, 1<<20); got != c.want || cut {
			t.Errorf("%s: got\n%s\nwant\n%s (cut %v)", c.name, got, c.want, cut)
		}
	}
}

func TestUnifiedIsCut(t *testing.T) {
	before, after := strings.Repeat("a\nb\nc\nd\n", 500), strings.Repeat("a\nx\nc\nd\n", 500)
	text, cut := Unified("f", []byte(before), []byte(after), 0, 1000)
	if !cut || len(text) > 1000 || !strings.HasSuffix(text, "\n") {
		t.Errorf("cut %v, %d bytes", cut, len(text))
	}
	// More differences than are searched for are still a diff.
	var a, b strings.Builder
	for i := range 3 * maxDifferences {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	text, cut = Unified("f", []byte(a.String()), []byte(b.String()), 3, 1<<20)
	if cut || strings.Count(text, "\n-a") != 3*maxDifferences || strings.Count(text, "\n+b") != 3*maxDifferences {
		t.Errorf("cut %v, %d bytes", cut, len(text))
	}
}

// patch(1) makes the new text of the old one and the diff.
func TestUnifiedIsAPatch(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch(1) is not installed")
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		var out bytes.Buffer
		for range random.IntN(40) {
			fmt.Fprintf(&out, "%d\n", random.IntN(6))
		}
		if random.IntN(3) == 0 {
			out.WriteString("end")
		}
		return out.Bytes()
	}
	for i := range 60 {
		before, after := text(), text()
		diff, _ := Unified("f", before, after, random.IntN(4), 1<<20)
		if diff == "" {
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "patch", "--posix", "-s", "-p1", "f")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%d: %v\n%s\n%s", i, err, out, diff)
		}
		if got, err := os.ReadFile(file); err != nil && len(after) > 0 || !bytes.Equal(got, after) {
			t.Fatalf("%d: patched to %q, want %q, by\n%s", i, got, after, diff)
		}
	}
}
