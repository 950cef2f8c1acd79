package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixed replaces what differs from run to run.
func fixed(text string) string {
	for pattern, with := range map[string]string{
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`: "TIME", `\d{4}-\d\d-\d\d \d\d:\d\d`: "TIME            ", `"revision":"[^"]*"`: `"revision":"REV"`, `"cursor":"[^"]*"`: `"cursor":"CUR"`,
		`(--cursor) \S+`: "$1 CUR", `\b[lo][0-9a-z]{10,17}\b`: "REV", `revision  \S+`: "revision  REV", `[0-9a-f]{64}`: "SHA",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

func golden(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(strings.TrimPrefix(want, "\n"), "\n"), strings.Split(fixed(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestFilesForPeopleAndPrograms(t *testing.T) {
	f := newFiles(t)
	f.ok("one\ntwo three\nfour\n", "put", "notes/a.txt")
	f.ok(strings.Repeat("x", 1536), "put", "notes/big.bin")
	f.ok("ana's rules\n", "put", "knowledge/k.md")

	golden(t, "ls", f.ok("", "ls"), `
      13 B  TIME              template  AGENTS.md
      23 B  TIME              template  agent.yaml
         -  TIME              bucket    knowledge/
         -  TIME              bucket    notes/
`)
	golden(t, "ls -l of a file", f.ok("", "ls", "-l", "notes/a.txt"), `
0644            19  TIME  bucket    ana          REV notes/a.txt
`)
	golden(t, "ls --layer bucket -r", f.ok("", "ls", "-r", "--layer=bucket", "notes"), `
      19 B  TIME              bucket    notes/a.txt
   1.5 KiB  TIME              bucket    notes/big.bin
`)
	golden(t, "ls --json", f.ok("", "ls", "--json", "notes"), `
{"author":"ana","kind":"FILE_KIND_FILE","layer":"LAYER_BUCKET","mode":420,"modify_time":"TIME","path":"notes/a.txt","revision":"REV","sha256":"SHA","size_bytes":"19"}
{"author":"ana","kind":"FILE_KIND_FILE","layer":"LAYER_BUCKET","mode":420,"modify_time":"TIME","path":"notes/big.bin","revision":"REV","sha256":"SHA","size_bytes":"1536"}
`)
	golden(t, "stat", f.ok("", "stat", "notes/a.txt"), `
path      notes/a.txt
kind      file
layer     bucket
mode      0644
size      19 bytes
modified  TIME
author    ana
revision  REV
sha256    SHA
`)
	golden(t, "glob", f.ok("", "glob", "*.{md,txt}"), `
      13 B  TIME              template  AGENTS.md
      12 B  TIME              bucket    knowledge/k.md
      19 B  TIME              bucket    notes/a.txt
`)
	golden(t, "du", f.ok("", "du"), `
   1.6 KiB        5  /
      12 B        1  knowledge/
   1.5 KiB        2  notes/
the bucket holds 1.5 KiB of 10.0 GiB in 3 files of 200000
`)
	golden(t, "du --json", f.ok("", "du", "--json", "notes"), `
{"path":"notes","bytes":1555,"files":2}
{"usage":{"limit_bytes":"10737418240","limit_file_bytes":"2147483648","limit_files":"200000","used_bytes":"1567","used_files":"3"}}
`)
	golden(t, "mv", f.ok("", "mv", "notes/big.bin", "big.bin"), "moved 1 file to big.bin\n")
	golden(t, "rm", f.ok("", "rm", "big.bin"), "deleted 1 file\n")
	golden(t, "rm of what is not there", f.ok("", "rm", "-f", "big.bin"), "deleted 0 files\n")
	golden(t, "append", f.ok("", "append", "notes/a.txt", "five", "six"), "notes/a.txt  28 B, added at byte 19\n")
	golden(t, "edit", f.ok("", "edit", "notes/a.txt", "--old=three", "--new=3, and", "--old=four", "--new="), `
--- a/notes/a.txt
+++ b/notes/a.txt
@@ -1,4 +1,4 @@
 one
-two three
+two 3, and
-four
+
 five six
`)
}

func TestLimitsSayThatMoreFollows(t *testing.T) {
	f := newFiles(t)
	for _, name := range []string{"a", "b", "c"} {
		f.ok(name, "put", "d/"+name)
	}
	code, out, errs := f.fs("", "ls", "--limit=2", "d")
	if code != ExitOK || strings.Count(out, "\n") != 2 || !strings.Contains(errs, "--limit 0") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
	if out := f.ok("", "ls", "--limit=3", "d"); strings.Count(out, "\n") != 3 {
		t.Errorf("exactly as many as there are: %s", out)
	}
}

func TestCatPrintsParts(t *testing.T) {
	f := newFiles(t)
	text := "one\ntwo\nthree\nfour"
	f.ok(text, "put", "n.txt")
	for args, want := range map[string][2]string{
		"":                         {text, ""},
		"--lines=2":                {"two\n", "more follows: --lines 3:"},
		"--lines=2:3":              {"two\nthree\n", "more follows: --lines 4:"},
		"--lines=3:":               {"three\nfour", ""},
		"--lines=:1":               {"one\n", "more follows: --lines 2:"},
		"--lines=4:9":              {"four", ""},
		"--lines=50:":              {"", ""},
		"--offset=4":               {"two\nthree\nfour", ""},
		"--offset=4 --bytes=3":     {"two", "more follows: --offset 7"},
		"--bytes=18":               {text, ""},
		"--offset=500":             {"", ""},
		"--layer=bucket --lines=1": {"one\n", "more follows: --lines 2:"},
	} {
		code, out, errs := f.fs("", append([]string{"cat", "n.txt"}, strings.Fields(args)...)...)
		if code != ExitOK || out != want[0] || strings.TrimSuffix(strings.TrimPrefix(errs, "gantry: "), "\n") != want[1] {
			t.Errorf("cat %s: code %d, %q, %q", args, code, out, errs)
		}
	}
	for _, bad := range []string{"--lines=0", "--lines=3:2", "--lines=x", "--lines=:", "--offset=-1"} {
		f.refused([]string{"cat", "n.txt", bad}, "RANGE_INVALID")
	}
	f.refused([]string{"cat", "n.txt", "--layer=template"}, "PATH_NOT_FOUND")
}

func TestCatDoesNotLetFilesSteerTheTerminal(t *testing.T) {
	f := newFiles(t)
	text := strings.Repeat("ü", chunkBytes/2) + "\x1b[31mred" // the boundary of a piece is within a character
	f.ok("x"+text, "put", "e.txt")
	var out terminal
	if code := f.command(t.Context(), &Env{Out: &out, Err: &out}, "cat", "e.txt"); code != ExitOK || out.String() != "x"+strings.TrimSuffix(text, "\x1b[31mred")+`\x1b[31mred` {
		t.Errorf("code %d, %d bytes ending %q", code, out.Len(), out.String()[max(0, out.Len()-30):])
	}
	if got := f.ok("", "cat", "e.txt"); got != "x"+text {
		t.Error("a program does not get the bytes as they are")
	}
}

func TestGrepLooksLikeGrep(t *testing.T) {
	f := newFiles(t)
	f.ok("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nTWO more\n", "put", "a.txt")
	f.ok("a two\n", "put", "b.md")
	golden(t, "grep", f.ok("", "grep", "two"), "a.txt:2:two\nb.md:1:a two\n")
	golden(t, "grep -i -g", f.ok("", "grep", "-i", "two", "-g", "*.txt"), "a.txt:2:two\na.txt:10:TWO more\n")
	golden(t, "grep -C", f.ok("", "grep", "-C", "1", "-i", "two", "a.txt"), `
a.txt-1-one
a.txt:2:two
a.txt-3-three
--
a.txt-9-nine
a.txt:10:TWO more
`)
	golden(t, "context that matches share is shown once", f.ok("", "grep", "-C2", "-E", "^t(wo|hree)|five", "a.txt"), `
a.txt-1-one
a.txt:2:two
a.txt:3:three
a.txt-4-four
a.txt:5:five
a.txt-6-six
a.txt-7-seven
`)
	golden(t, "grep -l", f.ok("", "grep", "-l", "two"), "a.txt\nb.md\n")
	if code, out, errs := f.fs("", "grep", "nothing"); code != ExitFailed || out+errs != "" {
		t.Errorf("nothing found: code %d, %s%s", code, out, errs)
	}
	if code, out, errs := f.fs("", "grep", "e", "--max=2"); code != ExitOK || strings.Count(out, "\n") != 2 || !strings.Contains(errs, "more may follow") {
		t.Errorf("as many as asked for: code %d, %s%s", code, out, errs)
	}
	f.refused([]string{"grep", "-E", "("}, "PATTERN_INVALID")

	var out terminal
	if code := f.command(t.Context(), &Env{Out: &out, Err: &out}, "grep", "two", "b.md"); code != ExitOK || out.String() != "\x1b[35mb.md\x1b[m:\x1b[32m1\x1b[m:a \x1b[1;31mtwo\x1b[m\n" {
		t.Errorf("on a terminal: code %d, %q", code, out.String())
	}
}

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
