package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"golang.org/x/text/unicode/norm"
)

func writeAndRead(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.lacks("a/b.txt")
	out := u.write("a/b.txt", "hello")
	if !out.Created || out.Entry.Size != 5 || out.Entry.Layer != files.LayerBucket || out.Entry.Author != "ana" || out.Entry.Mode != 0o644 {
		t.Errorf("written: %+v", out)
	}
	u.has("a/b.txt", "hello")
	e, err := u.Stat(u.ctx, path("a/b.txt"))
	sum := sha256.Sum256([]byte("hello"))
	if err != nil || e.SHA256 != hex.EncodeToString(sum[:]) || e.Revision != out.Entry.Revision || e.ModTime.IsZero() {
		t.Errorf("stat: %+v, %v", e, err)
	}
	if again := u.write("a/b.txt", "hi"); again.Created || again.Entry.Revision == out.Entry.Revision {
		t.Errorf("overwritten: %+v", again)
	}
	u.has("a/b.txt", "hi")
	u.write("empty", "")
	u.has("empty", "")
	root, err := u.Stat(u.ctx, path(""))
	if err != nil || root.Kind != files.KindDir {
		t.Errorf("the root: %+v, %v", root, err)
	}
	used, _, err := u.Usage(u.ctx)
	if err != nil || used.Bytes != 2 || used.Files != 2 {
		t.Errorf("usage %+v, %v, want 2 bytes in 2 files", used, err)
	}
}

func modes(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	first, err := u.tryWrite(files.Write{Path: path("f"), Mode: files.Create, FileMode: 0o755}, "1")
	if err != nil || first.Entry.Mode != 0o755 {
		t.Fatalf("create: %+v, %v", first, err)
	}
	_, err = u.tryWrite(files.Write{Path: path("f"), Mode: files.Create}, "2")
	u.fails(err, fsops.ReasonPathExists)
	u.has("f", "1")
	if kept := u.write("f", "2"); kept.Entry.Mode != 0o755 {
		t.Errorf("an overwrite without a mode has mode %o, want the old one", kept.Entry.Mode)
	}
	_, err = u.tryWrite(files.Write{Path: path("f"), Mode: files.IfRevision, Revision: first.Entry.Revision}, "3")
	u.fails(err, fsops.ReasonRevisionConflict)
	_, err = u.tryWrite(files.Write{Path: path("none"), Mode: files.IfRevision, Revision: first.Entry.Revision}, "3")
	u.fails(err, fsops.ReasonRevisionConflict)
	u.has("f", "2")
	u.lacks("none")
	e, err := u.Stat(u.ctx, path("f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = u.tryWrite(files.Write{Path: path("f"), Mode: files.IfRevision, Revision: e.Revision}, "3"); err != nil {
		t.Errorf("write at the current revision: %v", err)
	}
	u.has("f", "3")
}

// Revisions are never used again, not even for a path that was deleted and made anew with the same content.
func revisions(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	seen := map[string]bool{}
	for range 3 {
		r := u.write("f", "same").Entry.Revision
		if r == "" || seen[r] {
			t.Errorf("revision %q was used before", r)
		}
		seen[r] = true
		u.remove("f")
	}
}

func exactBytes(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	var all strings.Builder
	for i := range 256 * 64 {
		all.WriteByte(byte(i))
	}
	for name, content := range map[string]string{
		"all": all.String(), "lf": "one\ntwo\n", "open": "no-newline-end", "bom": "\uFEFFx\r\n", "wrong": "\xff\x00\xd8", "nul": "\x00",
	} {
		u.write(name, content)
		u.has(name, content)
	}
}

// Names that are legal are kept, listed and found, or refused as a whole with NAME_UNSUPPORTED.
func names(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	var kept []string
	for _, name := range []string{
		"log 09:41.txt", "-rf", `it's $(id) "q".md`, "a\nb.txt", "*.md", `back\slash`, ".hidden", "100%", "[x]", "{a,b}", "~", "a+b", "con", "x.", "😀.txt",
		"%2e%2e", "_", "a'b;DROP TABLE nodes--", strings.Repeat("n", 255), strings.Repeat("d/", 60) + "deep",
	} {
		_, err := u.tryWrite(files.Write{Path: path("n/" + name)}, "needle in "+name)
		if err != nil {
			u.fails(err, fsops.ReasonNameUnsupported)
			continue
		}
		kept = append(kept, "n/"+name)
		u.has("n/"+name, "needle in "+name)
	}
	if len(kept) < 16 {
		t.Errorf("only %d names are kept: %q", len(kept), kept)
	}
	listed := map[string]bool{}
	for _, name := range u.list("n", true) {
		listed[name] = true
	}
	for _, name := range kept {
		if !listed[name] {
			t.Errorf("%q is not listed", name)
		}
		u.remove(name)
		u.lacks(name)
	}
	u.shows("", true)
}

func normalForms(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	nfc, nfd := norm.NFC.String("보고서/é.md"), norm.NFD.String("보고서/é.md")
	u.write(nfd, "1")
	u.has(nfc, "1")
	u.write(nfc, "2")
	u.has(nfd, "2")
	if got := u.list("", true); len(got) != 2 || got[1] != nfd {
		t.Errorf("the spelling under which a path was made stays: %q", got)
	}
	u.write(norm.NFC.String("보고서")+"/x", "3")
	if got := u.list("", false); len(got) != 1 {
		t.Errorf("one directory in two normal forms: %q", got)
	}
	u.remove(nfc)
	u.lacks(nfd)
}

func letterCase(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("README.md", "upper")
	u.write("readme.md", "lower")
	u.has("README.md", "upper")
	u.has("readme.md", "lower")
	u.shows("", false, "README.md", "readme.md")
	other := bucket
	other.User = "Ana"
	as(t, u.store, other).lacks("README.md")
}

func fileAndDirectory(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("a/b", "file")
	_, err := u.tryWrite(files.Write{Path: path("a")}, "x")
	u.fails(err, fsops.ReasonIsDirectory)
	_, err = u.tryWrite(files.Write{Path: path("a/b/c")}, "x")
	u.fails(err, fsops.ReasonNotADirectory)
	_, err = u.Stat(u.ctx, path("a/b/c"))
	u.fails(err, fsops.ReasonNotADirectory)
	_, err = u.tryRead("a")
	u.fails(err, fsops.ReasonIsDirectory)
	_, err = u.List(u.ctx, path("a/b"), false, 10, "")
	u.fails(err, fsops.ReasonNotADirectory)
	_, err = u.List(u.ctx, path("none"), false, 10, "")
	u.fails(err, fsops.ReasonPathNotFound)
	_, err = u.Append(u.ctx, call, path("a"), []byte("x"), false)
	u.fails(err, fsops.ReasonIsDirectory)
	u.remove("a/b")
	u.write("a", "now a file")
	u.has("a", "now a file")
}

func listing(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.shows("", false)
	for _, name := range []string{"top.md", "sub-1", "sub/x", "sub/y/z", "sub0", "d/in.md", ".h"} {
		u.write(name, name)
	}
	u.shows("", false, ".h", "d/", "sub/", "sub-1", "sub0", "top.md")
	u.shows("", true, ".h", "d/", "d/in.md", "sub/", "sub-1", "sub/x", "sub/y/", "sub/y/z", "sub0", "top.md")
	u.shows("sub", false, "sub/x", "sub/y/")
	u.shows("sub", true, "sub/x", "sub/y/", "sub/y/z")
}

func pagesAcrossInserts(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	for _, name := range []string{"b", "d", "f", "h"} {
		u.write("p/"+name, "")
	}
	first, err := u.List(u.ctx, path("p"), false, 2, "")
	if err != nil || len(first.Entries) != 2 || first.Next == "" {
		t.Fatalf("first page: %+v, %v", first, err)
	}
	u.write("p/a", "")
	u.write("p/e", "")
	u.remove("p/d")
	var rest []string
	for token := first.Next; token != ""; {
		page, err := u.List(u.ctx, path("p"), false, 2, token)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			rest = append(rest, e.Path.Name())
		}
		token = page.Next
	}
	if got := strings.Join(rest, ""); got != "efh" {
		t.Errorf("the pages after the first hold %q, want what comes after its last entry", got)
	}
	_, err = u.List(u.ctx, path(""), false, 2, first.Next)
	u.fails(err, fsops.ReasonTokenInvalid)
	_, err = u.List(u.ctx, path("p"), false, 2, "zzz")
	u.fails(err, fsops.ReasonTokenInvalid)
}

func largeContent(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	var b strings.Builder
	for i := 0; b.Len() < 3<<20; i++ {
		b.WriteString(strings.Repeat(string(rune('a'+i%26)), 1000+i%7))
	}
	big := b.String()
	u.write("big", big)
	u.has("big", big)
	_, c, err := u.Open(u.ctx, path("big"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, at := range []int64{0, 1, 262_143, 262_144, 1 << 20, int64(len(big)) - 5} {
		buf := make([]byte, 5)
		if _, err := c.ReadAt(buf, at); err != nil || string(buf) != big[at:at+5] {
			t.Errorf("at %d: %q, %v", at, buf, err)
		}
	}
	if _, err := u.store.Stage(u.ctx, strings.NewReader(big), 1<<20); err == nil {
		t.Error("content over the limit was staged")
	} else {
		u.fails(err, fsops.ReasonTooLarge)
	}
	u.stage(big).Discard()
}

// Who has a file open goes on reading the revision that it opened.
func readWhileOverwritten(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	for _, size := range []int{10, 1 << 20} {
		old := strings.Repeat("A", size)
		u.write("f", old)
		_, c, err := u.Open(u.ctx, path("f"))
		if err != nil {
			t.Fatal(err)
		}
		u.write("f", strings.Repeat("B", size))
		data, err := readAll(u.ctx, c)
		if err != nil || string(data) != old {
			t.Errorf("after an overwrite: %s, %v", short(string(data)), err)
		}
		c.Close()
		_, c, err = u.Open(u.ctx, path("f"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Append(u.ctx, call, path("f"), []byte("more"), false); err != nil {
			t.Fatal(err)
		}
		u.remove("f")
		data, err = readAll(u.ctx, c)
		if err != nil || string(data) != strings.Repeat("B", size) {
			t.Errorf("after append and delete: %s, %v", short(string(data)), err)
		}
		c.Close()
	}
}
