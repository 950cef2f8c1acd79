package fstest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

func capabilities(u *user) {
	got, err := u.client.GetCapabilities(u.ctx, &filesystemv1.GetCapabilitiesRequest{})
	u.ok(err)
	have := Profile{Layers: got.GetLayers(), History: got.GetHistory(), ChangeSets: got.GetChangeSets(), Watch: got.GetDurableWatch(), Effects: got.GetEffects(), ArbitraryNames: got.GetArbitraryNames()}
	want := Profile{Layers: u.has.Layers, History: u.has.History, ChangeSets: u.has.ChangeSets, Watch: u.has.Watch, Effects: u.has.Effects, ArbitraryNames: u.has.ArbitraryNames}
	if have != want {
		u.Errorf("GetCapabilities says %+v, the profile %+v", have, want)
	}
	if got.GetBackend() == "" {
		u.Error("the backend has no name")
	}
}

func writeAndRead(u *user) {
	u.missing("a/b.txt")
	out := u.write("a/b.txt", "hello\n")
	sum := sha256.Sum256([]byte("hello\n"))
	info, err := u.stat("a/b.txt")
	u.ok(err)
	if !out.GetCreated() || u.own(out.GetInfo().GetPath()) != "a/b.txt" || info.GetRevision() != out.GetInfo().GetRevision() || info.GetRevision() == "" {
		u.Errorf("written %v, then %v", out, info)
	}
	if info.GetSha256() != hex.EncodeToString(sum[:]) || info.GetSizeBytes() != 6 || info.GetModifyTime() == nil {
		u.Errorf("stat: %v", info)
	}
	if again := u.write("/a/./b.txt", "bye\n"); again.GetCreated() || again.GetInfo().GetRevision() == info.GetRevision() {
		u.Errorf("overwritten: %v", again)
	}
	u.holds("a/b.txt", "bye\n")
	read, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("a/b.txt")})
	u.ok(err)
	if read.GetText() != "bye\n" || read.GetTotalLines() != 1 || read.GetMore() {
		u.Errorf("read: %v", read)
	}
}

func writeModes(u *user) {
	create := &filesystemv1.WriteRequest{Path: u.at("f"), Content: []byte("1"), Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE, FileMode: 0o755}
	first, err := u.client.Write(u.ctx, create)
	u.ok(err)
	if first.GetInfo().GetMode() != 0o755 && !u.has.SkipModes {
		u.Errorf("mode %o, want 755", first.GetInfo().GetMode())
	}
	_, err = u.client.Write(u.ctx, create)
	u.fails(err, errdefs.ErrAlreadyExists, "PATH_EXISTS")
	u.write("f", "2")
	stale := &filesystemv1.WriteRequest{
		Path: u.at("f"), Content: []byte("3"), Mode: filesystemv1.WriteMode_WRITE_MODE_IF_REVISION, IfRevision: first.GetInfo().GetRevision(),
	}
	_, err = u.client.Write(u.ctx, stale)
	u.fails(err, errdefs.ErrAborted, "REVISION_CONFLICT")
	u.holds("f", "2")
	info, err := u.stat("f")
	u.ok(err)
	stale.IfRevision = info.GetRevision()
	_, err = u.client.Write(u.ctx, stale)
	u.ok(err)
	u.holds("f", "3")
}

func exactBytes(u *user) {
	for name, content := range map[string]string{
		"lf": "one\ntwo\n", "open": "no-newline-end", "empty": "", "bom": "\uFEFFx\r\n", "cr": "a\rb", "nul": "a\x00b", "wrong": "\xff\xfe",
	} {
		u.write(name, content)
		u.holds(name, content)
	}
}

func badPaths(u *user) {
	for _, path := range []string{"../x", "/../etc/passwd", "a/../../x", strings.Repeat("n", 256), ".gantry-runtime/x"} {
		_, err := u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: path, Content: []byte("x")})
		u.fails(err, errdefs.ErrInvalidArgument, "PATH_INVALID")
		_, err = u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: path})
		u.fails(err, errdefs.ErrInvalidArgument, "PATH_INVALID")
		_, err = u.client.Delete(u.ctx, &filesystemv1.DeleteRequest{Path: path})
		u.fails(err, errdefs.ErrInvalidArgument, "PATH_INVALID")
	}
	for _, path := range []string{"/etc/passwd", "etc/hostname"} {
		if _, err := u.stat(path); reason(err) != "PATH_NOT_FOUND" && u.target.Prefix == "" {
			u.Errorf("the host's %s: %v", path, err)
		}
	}
	u.write("some..dir/note.txt", "x")
	u.holds("/some..dir/note.txt", "x")
	u.write("back/../there", "y")
	u.holds("there", "y")
}

func names(u *user) {
	var kept []string
	for _, name := range []string{
		"log 09:41.txt", "-rf", `it's $(id) "q".md`, "a\nb.txt", "*.md", `back\slash`, ".hidden", "%41", "[x]", "{a,b}", "~", "😀", strings.Repeat("長", 80), "tab\there",
	} {
		_, err := u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: u.at("n/" + name), Content: []byte("first\nneedle\n")})
		if err != nil && !u.has.ArbitraryNames {
			u.fails(err, errdefs.ErrInvalidArgument, "NAME_UNSUPPORTED")
			continue
		}
		u.ok(err)
		kept = append(kept, "n/"+name)
	}
	for _, path := range kept {
		u.holds(path, "first\nneedle\n")
		_, err := u.client.Edit(u.ctx, &filesystemv1.EditRequest{Path: u.at(path), Replacements: []*filesystemv1.Replacement{{OldText: "first", NewText: "edited"}}})
		u.ok(err)
	}
	want := slices.Sorted(slices.Values(kept))
	if got := u.list("n", false, 3); !slices.Equal(got, want) {
		u.Errorf("list %q\nwant %q", got, want)
	}
	matches, _ := u.grep(&filesystemv1.GrepRequest{Pattern: "needle", Path: "n"})
	var found []string
	for _, m := range matches {
		found = append(found, m.GetPath())
		if m.GetLine() != 2 || m.GetText() != "needle" || m.GetColumn() != 1 {
			u.Errorf("match %v", m)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, want) {
		u.Errorf("grep finds %q\nwant %q", found, want)
	}
	for _, path := range kept {
		u.remove(path)
		u.missing(path)
	}
}

func normalForms(u *user) {
	nfc, nfd := norm.NFC.String("보고서-1.md"), norm.NFD.String("보고서-2.md")
	u.write(nfc, norm.NFC.String("결과"))
	u.write(nfd, norm.NFD.String("결과"))
	if got := u.glob(&filesystemv1.GlobRequest{Pattern: "**/*보고서*"}); len(got) != 2 {
		u.Errorf("glob over two normal forms: %q", got)
	}
	if got, _ := u.grep(&filesystemv1.GrepRequest{Pattern: "결과"}); len(got) != 2 {
		u.Errorf("grep over two normal forms: %v", got)
	}
	u.write(norm.NFC.String("보고서-2.md"), "same file")
	u.holds(nfd, "same file")
	_, err := u.client.Edit(u.ctx, &filesystemv1.EditRequest{Path: u.at(nfc), Replacements: []*filesystemv1.Replacement{{OldText: norm.NFD.String("결과"), NewText: "x"}}})
	u.ok(err)
	u.holds(nfc, "x")
}

func directories(u *user) {
	for _, name := range []string{"top.md", "sub-1", "sub/x", "sub/y/z", "d/in.md", ".h"} {
		u.write("r/"+name, name)
	}
	for _, tt := range []struct {
		dir  string
		deep bool
		want string
	}{
		{"r", false, "r/.h r/d/ r/sub/ r/sub-1 r/top.md"},
		{"r/sub", false, "r/sub/x r/sub/y/"},
		{"r", true, "r/.h r/d/ r/d/in.md r/sub/ r/sub-1 r/sub/x r/sub/y/ r/sub/y/z r/top.md"},
	} {
		if got := strings.Join(u.list(tt.dir, tt.deep, 2), " "); got != tt.want {
			u.Errorf("list %q (recursive %v) = %s\nwant %s", tt.dir, tt.deep, got, tt.want)
		}
	}
	_, err := u.client.List(u.ctx, &filesystemv1.ListRequest{Path: u.at("none")})
	u.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
	_, err = u.client.List(u.ctx, &filesystemv1.ListRequest{Path: u.at("r/top.md")})
	u.fails(err, errdefs.ErrFailedPrecondition, "NOT_A_DIRECTORY")
	_, err = u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: u.at("r/sub")})
	u.fails(err, errdefs.ErrFailedPrecondition, "IS_DIRECTORY")
	_, err = u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: u.at("r/top.md/x")})
	u.fails(err, errdefs.ErrFailedPrecondition, "NOT_A_DIRECTORY")
	_, err = u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("r/sub")})
	u.fails(err, errdefs.ErrFailedPrecondition, "IS_DIRECTORY")
	info, err := u.stat("r/sub")
	u.ok(err)
	if info.GetKind() != filesystemv1.FileKind_FILE_KIND_DIRECTORY {
		u.Errorf("stat of a directory: %v", info)
	}
}

func pages(u *user) {
	for i := range 60 {
		u.write(fmt.Sprintf("bulk/%03d.txt", i), "")
	}
	first, err := u.client.List(u.ctx, &filesystemv1.ListRequest{Path: u.at("bulk"), PageSize: 7})
	u.ok(err)
	if len(first.GetEntries()) != 7 || first.GetNextPageToken() == "" {
		u.Fatalf("first page: %v", first)
	}
	u.write("bulk/000a.txt", "")
	u.write("bulk/050a.txt", "")
	seen := map[string]int{}
	for page := first; ; {
		for _, e := range page.GetEntries() {
			seen[e.GetPath()]++
		}
		if page.GetNextPageToken() == "" {
			break
		}
		page, err = u.client.List(u.ctx, &filesystemv1.ListRequest{Path: u.at("bulk"), PageSize: 7, PageToken: page.GetNextPageToken()})
		u.ok(err)
	}
	if len(seen) != 61 || seen[u.at("bulk/000a.txt")] != 0 || seen[u.at("bulk/050a.txt")] != 1 {
		u.Errorf("%d entries over all pages, want the 60 of the start and the one added after the first page", len(seen))
	}
	for path, n := range seen {
		if n != 1 {
			u.Errorf("%s is listed %d times", path, n)
		}
	}
	_, err = u.client.List(u.ctx, &filesystemv1.ListRequest{Path: u.at(""), PageToken: first.GetNextPageToken()})
	u.fails(err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
}

func windows(u *user) {
	u.write("f", strings.Repeat(strings.Repeat("x", 69)+"\n", 3000))
	first, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("f")})
	u.ok(err)
	if first.GetLineCount() != 2000 || !first.GetMore() || first.GetNextOffsetLines() != 2000 || first.GetTotalLines() != 3000 {
		u.Errorf("default window: %d lines, more %v, next %d of %d", first.GetLineCount(), first.GetMore(), first.GetNextOffsetLines(), first.GetTotalLines())
	}
	second, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("f"), OffsetLines: first.GetNextOffsetLines()})
	u.ok(err)
	if second.GetLineCount() != 1000 || second.GetMore() || second.GetStartByte() != first.GetNextOffsetBytes() {
		u.Errorf("second window: %d lines, more %v", second.GetLineCount(), second.GetMore())
	}
	part, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("f"), OffsetLines: 1, LimitLines: 1})
	u.ok(err)
	if part.GetText() != strings.Repeat("x", 69)+"\n" {
		u.Errorf("one line: %q", part.GetText())
	}
	raw, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("f"), Mode: filesystemv1.ReadMode_READ_MODE_BYTES, OffsetBytes: 68, LimitBytes: 3})
	u.ok(err)
	if string(raw.GetData()) != "x\nx" || !raw.GetMore() {
		u.Errorf("bytes: %q", raw.GetData())
	}
}

func longLine(u *user) {
	content := `{"k":"` + strings.Repeat("é", 600_000) + `"}`
	u.write("f", content)
	var joined strings.Builder
	for pos := int64(0); ; {
		page, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("f"), LimitLines: 1, OffsetBytes: pos})
		u.ok(err)
		if len(page.GetText()) > 262_144 || page.GetReplaced() || !utf8.ValidString(page.GetText()) {
			u.Fatalf("a page of %d bytes, replaced %v", len(page.GetText()), page.GetReplaced())
		}
		joined.WriteString(page.GetText())
		if !page.GetMore() {
			break
		}
		if !page.GetPartialLine() || page.GetNextOffsetBytes() <= pos {
			u.Fatalf("page at %d: %v to %d", pos, page.GetPartialLine(), page.GetNextOffsetBytes())
		}
		pos = page.GetNextOffsetBytes()
	}
	if joined.String() != content {
		u.Error("the pages don't join to the content")
	}
}

func endOfFile(u *user) {
	u.write("f", strings.Repeat("line\n", 40))
	for _, offset := range []int64{39, 40, 41, 4000} {
		got, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("f"), OffsetLines: offset})
		u.ok(err)
		if want := max(40-offset, 0); got.GetLineCount() != want || got.GetMore() || got.GetTotalLines() != 40 {
			u.Errorf("offset %d: %d lines, more %v, total %d", offset, got.GetLineCount(), got.GetMore(), got.GetTotalLines())
		}
	}
	u.write("empty", "")
	got, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("empty")})
	u.ok(err)
	if got.GetText() != "" || got.GetMore() || got.GetTotalLines() != 0 {
		u.Errorf("an empty file: %v", got)
	}
}
