package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPutGuardsWhatIsThere(t *testing.T) {
	f := newFiles(t)
	f.ok("first", "put", "a.txt", "--create-only")
	f.refused([]string{"put", "a.txt", "--create-only"}, "PATH_EXISTS")
	f.refused([]string{"put", "a.txt", "--if-revision=other"}, "REVISION_CONFLICT")
	var info struct{ Revision string }
	if err := json.Unmarshal([]byte(f.ok("", "stat", "--json", "a.txt")), &info); err != nil {
		t.Fatal(err)
	}
	f.ok("second", "put", "a.txt", "--if-revision="+info.Revision)
	f.refused([]string{"rm", "a.txt", "--if-revision=" + info.Revision}, "REVISION_CONFLICT")
	f.refused([]string{"put", "a.txt", t.TempDir()}, "-r")
	f.refused([]string{"put", "a.txt", "/nothing/there"}, "/nothing/there")
	if code, _, _ := f.fs("", "put", "a.txt", "--create-only", "--if-revision=x"); code != ExitUsage {
		t.Errorf("two conditions: code %d", code)
	}
}

// TestAnInterruptedPutLeavesNothing breaks the input off, before and after there is a file.
func TestAnInterruptedPutLeavesNothing(t *testing.T) {
	f := newFiles(t)
	put := func() {
		var out, errs bytes.Buffer
		if code := f.command(t.Context(), &Env{In: &broken{left: 3 << 20}, Out: &out, Err: &errs}, "put", "a.bin"); code != ExitFailed || !strings.Contains(errs.String(), "the pipe broke") {
			t.Errorf("code %d, %s", code, errs.String())
		}
	}
	put()
	f.refused([]string{"stat", "a.bin"}, "PATH_NOT_FOUND")
	f.ok("whole", "put", "a.bin")
	put()
	if got := f.ok("", "cat", "a.bin"); got != "whole" {
		t.Errorf("after the break: %q", got)
	}
}

func TestWatchGoesOnFromItsCursor(t *testing.T) {
	f := newFiles(t)
	_, _, errs := f.fs("", "watch", "--once")
	cursor := strings.TrimSpace(errs[strings.LastIndex(errs, " "):])
	f.ok("x", "put", "a.txt")
	f.ok("x", "put", "b.md")
	f.ok("", "mv", "a.txt", "c.txt")
	_, out, errs := f.fs("", "watch", "--once", "--cursor="+cursor)
	golden(t, "watch", out, `
TIME  written  ana          a.txt
TIME  written  ana          b.md
TIME  moved    ana          a.txt -> c.txt
`)
	golden(t, "where to go on", errs, "gantry: go on with --cursor CUR\n")
	if _, out, _ := f.fs("", "watch", "--once", "--cursor="+cursor, "*.md"); strings.Count(out, "\n") != 1 {
		t.Errorf("one glob: %s", out)
	}
	next := strings.TrimSpace(errs[strings.LastIndex(errs, " "):])
	if _, out, _ := f.fs("", "watch", "--once", "--cursor="+next); out != "" {
		t.Errorf("nothing is shown twice: %s", out)
	}
	f.refused([]string{"watch", "--once", "--cursor=nonsense"}, "TOKEN_INVALID")

	// Interrupted, it ends in good order.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var o, e bytes.Buffer
	if code := f.command(ctx, &Env{Out: &o, Err: &e}, "watch", "--cursor="+cursor); code != ExitOK || !strings.Contains(e.String(), "--cursor") {
		t.Errorf("interrupted: code %d, %s", code, e.String())
	}
}

func TestEditInAnEditor(t *testing.T) {
	f := newFiles(t)
	f.ok("one\ntwo\n", "put", "n.txt")
	dir := t.TempDir()
	script := func(name, text string) string {
		writeLocal(t, dir, name, "#!/bin/sh\n"+text)
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	kept := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "tmp", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "")
	f.refused([]string{"edit", "n.txt"}, "EDITOR", "--old")
	t.Setenv("EDITOR", script("nothing", "exit 0"))
	if code, _, errs := f.fs("", "edit", "n.txt"); code != ExitOK || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("nothing changed: code %d, %s", code, errs)
	}
	t.Setenv("EDITOR", script("change", `sed -i s/two/2/ "$2"`)+" --flag")
	golden(t, "the change", f.ok("", "edit", "n.txt"), "--- a/n.txt\n+++ b/n.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
	if got := kept(); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}

	// Somebody writes meanwhile: their text stays, and so does ours.
	f.raced(script, "theirs")
	code, _, errs := f.fs("", "edit", "n.txt")
	files := kept()
	if code != ExitFailed || !strings.Contains(errs, "REVISION_CONFLICT") || len(files) != 1 || !strings.Contains(errs, files[0]) {
		t.Fatalf("a conflict: code %d, %s, kept %v", code, errs, files)
	}
	if text, err := os.ReadFile(files[0]); err != nil || string(text) != "mine\n2\n" {
		t.Errorf("kept: %q, %v", text, err)
	}
	if got := f.ok("", "cat", "n.txt"); got != "theirs" {
		t.Errorf("the file is %q", got)
	}
}

// raced makes an editor that changes its file, while another command writes the one that is edited: the test binary as the command line.
func (f *files) raced(script func(name, text string) string, theirs string) {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Setenv("EDITOR", script("race", `sed -i s/one/mine/ "$1"
printf `+theirs+` | `+asCLI+`=1 '`+self+`' fs put n.txt --addr=`+f.addr+` --agent=store --user=`+f.user+` >/dev/null`))
}

// TestVersionsComeBack changes a file, looks at what was and brings it back, a deleted one too.
func TestVersionsComeBack(t *testing.T) {
	f := newFiles(t)
	f.ok("one\n", "put", "a.txt")
	f.ok("two\n", "put", "a.txt")
	f.ok("", "edit", "a.txt", "--old=two", "--new=three")
	versions := func() (out []string) {
		for line := range strings.Lines(f.ok("", "history", "a.txt")) {
			out = append(out, strings.Fields(line)[0])
		}
		return out
	}
	all := versions()
	if len(all) != 3 {
		t.Fatalf("versions: %v", all)
	}
	golden(t, "diff with the one before", f.ok("", "diff", "a.txt"), "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-two\n+three\n")
	if got := f.ok("", "cat", "a.txt", "--revision="+all[2]); got != "one\n" {
		t.Errorf("the first version: %q", got)
	}
	if got := f.ok("", "get", "a.txt", "-", "--revision="+all[1]); got != "two\n" {
		t.Errorf("the second version: %q", got)
	}
	f.refused([]string{"restore", "a.txt", all[2], "--if-revision=" + all[1]}, "REVISION_CONFLICT")
	f.ok("", "restore", "a.txt", all[2])
	f.ok("", "rm", "a.txt")
	f.ok("", "restore", "a.txt", all[1])
	if got := f.ok("", "cat", "a.txt"); got != "two\n" {
		t.Errorf("restored: %q", got)
	}
	f.refused([]string{"cat", "a.txt", "--revision=none"}, "none")
	f.user = "ben"
	if code, out, _ := f.fs("", "history", "a.txt"); strings.Contains(out, all[0]) {
		t.Errorf("ben sees ana's versions: code %d, %s", code, out)
	}
	f.refused([]string{"restore", "a.txt", all[2]})
}
