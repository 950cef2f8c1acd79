package cli

import (
	"regexp"
	"strings"
	"testing"

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
