package diff

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestUnified(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"new file", "", "a\nb\n", "--- a/f\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"emptied", "a\n", "", "--- a/f\n+++ b/f\n@@ -1,1 +0,0 @@\n-a\n"},
		{"changed line", "a\nb\nc\n", "a\nx\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
	} {
		if got := Unified("f", c.before, c.after, 1<<20); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	if got := Unified("f", "", strings.Repeat("line\n", 100), 60); len(got) > 60 || !strings.HasSuffix(got, "\n") {
		t.Errorf("the cut diff is %q", got)
	}
}

// TestPatchAgrees applies the diffs with patch(1).
func TestPatchAgrees(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		testkit.Skip(t, "patch", "%v (apt-get install patch)", err)
	}
	long := func(changed ...int) string {
		var b strings.Builder
		for i := range 60 {
			b.WriteString("line")
			for _, c := range changed {
				if c == i {
					b.WriteString(" changed")
				}
			}
			b.WriteString(strings.Repeat("x", i) + "\n")
		}
		return b.String()
	}
	for _, pair := range [][2]string{
		{long(), long(3)}, {long(), long(3, 8, 30, 59)}, {long(0, 1), long(50)}, {"a\nb\n", "b\na\nc\n"}, {long(), strings.Replace(long(), "linexxxx\n", "", 1)},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte(pair[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "patch", "-s", file)
		cmd.Stdin = strings.NewReader(Unified("f", pair[0], pair[1], 1<<20))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, _ := os.ReadFile(file); string(got) != pair[1] {
			t.Errorf("patched to\n%s\nwant\n%s", got, pair[1])
		}
	}
}
