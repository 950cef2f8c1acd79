package cli

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExportAndImportAreOneAnothersReverse(t *testing.T) {
	f := newFiles(t)
	want := map[string]string{"a.txt": "a", "d/b.bin": "\x00\x01", "d/ü.md": "ü", "large": strings.Repeat("l", setFile+1)}
	for name, text := range want {
		f.ok(text, "put", name)
	}
	dir := t.TempDir()
	for _, to := range []string{"x.tar", "x.tar.gz", "x.tgz", "x.zip", "plain"} {
		f.user = "ana"
		f.ok("", "export", filepath.Join(dir, to), "--layer=bucket")
		f.user = "to-" + to
		if code, out, errs := f.fs("", "import", filepath.Join(dir, to), "into"); code != ExitOK || !strings.Contains(out, "imported 4 files") {
			t.Errorf("%s: code %d, %s%s", to, code, out, errs)
		}
		back := filepath.Join(dir, "back-"+to)
		f.ok("", "get", "-r", "into", back)
		if diff := cmp.Diff(want, localTree(t, back)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", to, diff)
		}
	}
	f.user = "ana"
	f.refused([]string{"export", filepath.Join(dir, "x.tar")}, "FILE_EXISTS")
	f.refused([]string{"import", filepath.Join(dir, "plain", "a.txt")}, "FORMAT_UNKNOWN")
	writeLocal(t, dir, "wrong.zip", "not a zip")
	f.refused([]string{"import", filepath.Join(dir, "wrong.zip")}, "FORMAT_UNKNOWN")
	if out := f.ok("", "import", "--dry-run", filepath.Join(dir, "x.zip"), "dry"); !strings.Contains(out, "would import 4 files") {
		t.Errorf("dry run: %s", out)
	}
	f.refused([]string{"stat", "dry"}, "PATH_NOT_FOUND")
	code, out, errs := f.fs("", "import", "--create-only", filepath.Join(dir, "plain"))
	if code != ExitFailed || !strings.Contains(errs, "PATH_EXISTS") {
		t.Errorf("create-only: code %d, %s%s", code, out, errs)
	}
}

// TestSetsOfAnImportAreAllOrNothing imports a file that is there already among others: none of its set is written.
func TestSetsOfAnImportAreAllOrNothing(t *testing.T) {
	f := newFiles(t)
	f.ok("mine", "put", "b.txt")
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "a", "b.txt": "b", "c.txt": "c", "large.bin": strings.Repeat("l", setFile+1)} {
		writeLocal(t, dir, name, text)
	}
	code, out, errs := f.fs("", "import", "--create-only", dir)
	if code != ExitFailed || !strings.HasPrefix(out, "imported 1 file, 1.0 MiB; 1 failed; 3 left out") || !strings.Contains(errs, "PATH_EXISTS") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
	if got := f.ok("", "cat", "b.txt"); got != "mine" {
		t.Errorf("b.txt is %q", got)
	}
	for _, name := range []string{"a.txt", "c.txt"} {
		f.refused([]string{"stat", name}, "PATH_NOT_FOUND")
	}
	f.ok("", "import", dir)
	if got := f.ok("", "cat", "c.txt"); got != "c" {
		t.Errorf("c.txt is %q", got)
	}
}

// TestHostileArchives imports names that lead out, links and devices: they are left out and told.
func TestHostileArchives(t *testing.T) {
	f := newFiles(t)
	dir := t.TempDir()
	bad := []string{"../evil", "/evil", "a/../../evil", "a/../b", "./../evil", "x\x00y"}
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, name := range append(bad[:5:5], "./good.txt") {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 2, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("hi")); err != nil {
			t.Fatal(err)
		}
	}
	for name, kind := range map[string]byte{"link": tar.TypeSymlink, "hard": tar.TypeLink, "dev": tar.TypeChar, "fifo": tar.TypeFifo} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Linkname: "/etc/passwd"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := f.fs(raw.String(), "import", "-", "t")
	if code != ExitOK || !strings.HasPrefix(out, "imported 1 file, 2 B; 9 left out") || strings.Count(errs, "left out: ") != 9 {
		t.Errorf("tar: code %d, %s%s", code, out, errs)
	}

	z, err := os.Create(filepath.Join(dir, "x.zip"))
	if err != nil {
		t.Fatal(err)
	}
	zw := zip.NewWriter(z)
	for _, name := range append(bad, "good.txt") {
		e, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write([]byte("hi")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(zw.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := f.fs("", "import", z.Name(), "z"); code != ExitOK || !strings.HasPrefix(out, "imported 1 file, 2 B; 6 left out") {
		t.Errorf("zip: code %d, %s%s", code, out, errs)
	}
	var got []string
	for line := range strings.Lines(f.ok("", "ls", "-r", "--json", "--layer=bucket")) {
		var e struct{ Path, Kind string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "FILE_KIND_FILE" {
			got = append(got, e.Path)
		}
	}
	if !slices.Equal(got, []string{"t/good.txt", "z/good.txt"}) {
		t.Errorf("the bucket has %q", got)
	}
	// Cut short, an archive is an error, and nothing of the file that was cut is there.
	var cut bytes.Buffer
	w = tar.NewWriter(&cut)
	if err := w.WriteHeader(&tar.Header{Name: "whole.txt", Typeflag: tar.TypeReg, Size: 3000, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 3000)); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := f.fs(cut.String()[:2000], "import", "-", "cut"); code != ExitFailed || !strings.Contains(errs, "whole.txt") {
		t.Errorf("cut archive: code %d, %s", code, errs)
	}
	f.refused([]string{"stat", "cut/whole.txt"}, "PATH_NOT_FOUND")
}

func TestWorkspacesAreTakenOver(t *testing.T) {
	f := newFiles(t)
	old := filepath.Join(f.imports, "old")
	writeLocal(t, old, "ana/MEMORY.md", "ana likes tea\n")
	writeLocal(t, old, "ana/agents/store/sessions/s1.log.jsonl", `{"type":"message","id":"m1","role":"USER","content":"Where is the tea?"}`+"\n"+`{"type":"message","id":"m2","role":"ASSISTANT","content":"In the \u001b[31mkitchen."}`+"\n")
	writeLocal(t, old, "junk", "x")
	writeLocal(t, old, "ana/memory/2026-03-01.md", "- read before\n")
	writeLocal(t, old, "ana/memory/2026-03-09.md", "- not yet\n")
	writeLocal(t, old, "ana/memory/.consolidation_state", "2026-03-05T00:00:00Z")
	for name, day := range map[string]int{"2026-03-01.md": 1, "2026-03-09.md": 9} {
		at := time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(filepath.Join(old, "ana", "memory", name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "dry run", f.ok("", "import", "--agentscope="+old, "--dry-run"), "left out: junk: it belongs to no user\nwould import 4 files and 1 thread; 0 and 0 are there already; 1 left out\n")
	golden(t, "import", f.ok("", "import", "--agentscope="+old), "left out: junk: it belongs to no user\nimported 4 files and 1 thread; 0 and 0 are there already; 1 left out\n")
	golden(t, "again, as JSON", f.ok("", "import", "--json", "--agentscope="+old), `{"left_out":["junk: it belongs to no user"],"left_out_count":"1","unchanged_files":"4","unchanged_threads":"1"}`+"\n")
	if got := f.ok("", "cat", "MEMORY.md"); got != "ana likes tea\n" {
		t.Errorf("the bucket has %q", got)
	}
	who := []string{"--addr=" + f.addr, "--agent=store", "--user=ana", "--session=s1"}
	if code, out, errs := run(t, "", append([]string{"thread", "show"}, who...)...); code != ExitOK || out != "2 user: Where is the tea?\n3 assistant: In the \\x1b[31mkitchen.\n" {
		t.Errorf("the conversation: code %d, %s%s", code, out, errs)
	}
	// What was consolidated there is not consolidated again here.
	if code, out, errs := run(t, "", append([]string{"memory", "status"}, who[:3]...)...); code != ExitOK || !strings.Contains(out, `"pending_bytes":"10","pending_ledgers":1`) {
		t.Errorf("the watermark: code %d, %s%s", code, out, errs)
	}
	// It goes on like any other.
	if code, out, errs := run(t, "", append([]string{"call", `Say "hello"`}, who...)...); code != ExitOK {
		t.Errorf("a call in the session: code %d, %s%s", code, out, errs)
	}
	f.refused([]string{"import", "--agentscope=/etc"}, "IMPORT_NOT_ALLOWED", "import-dirs")
	f.refused([]string{"import"}, "USAGE")
}
