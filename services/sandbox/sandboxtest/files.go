package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

var fileCases = []Case{
	{"files go in and come out, byte for byte", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		content := bytes.Repeat([]byte{0, 1, 255, '\n', 0xe6}, 1<<20)
		up, err := e.Files.Upload(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		parts := []*fspb.UploadRequest{{Part: &fspb.UploadRequest_Header{Header: &fspb.UploadHeader{Path: "out/big.xlsx", FileMode: 0o640}}}}
		for chunk := range slices.Chunk(content, 1<<20) {
			parts = append(parts, &fspb.UploadRequest{Part: &fspb.UploadRequest_Chunk{Chunk: chunk}})
		}
		for _, p := range parts {
			if err := up.Send(p); err != nil {
				tb.Fatal(err)
			}
		}
		done, err := up.CloseAndRecv()
		if err != nil || !done.GetCreated() || done.GetInfo().GetSizeBytes() != int64(len(content)) || done.GetInfo().GetLayer() != fspb.Layer_LAYER_SANDBOX {
			tb.Fatalf("Upload: %v %v", done, err)
		}
		want(tb, "inside", e.out(tb, ctx, "sha256sum < out/big.xlsx | cut -d' ' -f1; stat -c '%a %U' out/big.xlsx"), done.GetInfo().GetSha256()+"\n640 agent\n")
		down, err := e.Files.Download(ctx, &fspb.DownloadRequest{Path: "out/big.xlsx"})
		if err != nil {
			tb.Fatal(err)
		}
		var got bytes.Buffer
		for {
			msg, err := down.Recv()
			if err != nil {
				tb.Fatalf("Download: %v", err)
			}
			got.Write(msg.GetChunk())
			if msg.GetEnd() != nil {
				want(tb, "sent", msg.GetEnd().GetSentBytes(), int64(len(content)))
				break
			}
		}
		if _, err := down.Recv(); !errors.Is(err, io.EOF) {
			tb.Errorf("after the end: %v", err)
		}
		want(tb, "the same bytes", bytes.Equal(got.Bytes(), content), true)
	}},
	{"the operations on text do what they say", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		w, err := e.Files.Write(ctx, &fspb.WriteRequest{Path: "notes/a.txt", Content: []byte("north\r\nsouth\r\neast\r\n")})
		if err != nil || !w.GetCreated() {
			tb.Fatalf("Write: %v %v", w, err)
		}
		ed, err := e.Files.Edit(ctx, &fspb.EditRequest{Path: "notes/a.txt", Replacements: []*fspb.Replacement{{OldText: "north\nsouth", NewText: "north\nSOUTH\nsouth-b"}}})
		if err != nil || ed.GetReplaced()[0] != 1 {
			tb.Fatalf("Edit: %v %v", ed, err)
		}
		want(tb, "inside", e.out(tb, ctx, "od -An -c notes/a.txt | tr -d ' \\n'"), `north\r\nSOUTH\r\nsouth-b\r\neast\r\n`)
		_, err = e.Files.Edit(ctx, &fspb.EditRequest{Path: "notes/a.txt", IfRevision: w.GetInfo().GetRevision(), Replacements: []*fspb.Replacement{{OldText: "east", NewText: "west"}}})
		refused(tb, "edit of an old revision", err, errdefs.ErrAborted, "REVISION_CONFLICT")
		_, err = e.Files.Edit(ctx, &fspb.EditRequest{Path: "notes/a.txt", Replacements: []*fspb.Replacement{{OldText: "none", NewText: "x"}}})
		refused(tb, "edit without a match", err, errdefs.ErrFailedPrecondition, "EDIT_NO_MATCH")
		for _, s := range []string{"one", "two"} {
			if _, err := e.Files.Append(ctx, &fspb.AppendRequest{Path: "notes/log", Content: []byte(s), EnsureNewline: true}); err != nil {
				tb.Fatal(err)
			}
		}
		r, err := e.Files.Read(ctx, &fspb.ReadRequest{Path: "notes/log", Mode: fspb.ReadMode_READ_MODE_TEXT, OffsetLines: 1})
		if err != nil || r.GetText() != "two" || r.GetTotalLines() != 2 {
			tb.Errorf("Read: %v %v", r, err)
		}
		_, err = e.Files.Write(ctx, &fspb.WriteRequest{Path: "notes/log", Mode: fspb.WriteMode_WRITE_MODE_CREATE})
		refused(tb, "create of what is there", err, errdefs.ErrAlreadyExists, "PATH_EXISTS")
		m, err := e.Files.Move(ctx, &fspb.MoveRequest{FromPath: "notes", ToPath: "old/notes"})
		if err != nil || m.GetFiles() != 2 {
			tb.Errorf("Move: %v %v", m, err)
		}
		d, err := e.Files.Delete(ctx, &fspb.DeleteRequest{Path: "old", Recursive: true})
		if err != nil || d.GetFiles() != 2 {
			tb.Errorf("Delete: %v %v", d, err)
		}
		_, err = e.Files.Stat(ctx, &fspb.StatRequest{Path: "old"})
		refused(tb, "afterwards", err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
	}},
	{"a change under an effect id is made once", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		one := withEffect(ctx, "append")
		for i := range 3 {
			resp, err := e.Files.Append(one, &fspb.AppendRequest{Path: "log", Content: []byte("line\n")})
			if err != nil || resp.GetOffsetBytes() != 0 || resp.GetInfo().GetSizeBytes() != 5 {
				tb.Fatalf("call %d: %v %v", i, resp, err)
			}
		}
		want(tb, "log", e.out(tb, ctx, "cat log"), "line\n")
		_, err := e.Files.Append(one, &fspb.AppendRequest{Path: "log", Content: []byte("other\n")})
		refused(tb, "another request", err, errdefs.ErrAborted, "EFFECT_MISMATCH")
		gone := withEffect(ctx, "delete")
		_, err = e.Files.Delete(gone, &fspb.DeleteRequest{Path: "none"})
		refused(tb, "a failed change", err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
		e.out(tb, ctx, "touch none")
		for range 2 {
			if d, err := e.Files.Delete(gone, &fspb.DeleteRequest{Path: "none"}); err != nil || d.GetFiles() != 1 {
				tb.Errorf("it was not made, so it may be made later: %v %v", d, err)
			}
		}
	}},
	{"search finds what is there, with hostile names and bytes", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		names := []string{"log 09:41.txt", "-rf", "it's $(id) \"q\".md", "*.md", "back\\slash", ".hidden", strings.Repeat("長", 80), "보고서-1.md", "sub/deep/x.txt"}
		for _, n := range names {
			if _, err := e.Files.Write(ctx, &fspb.WriteRequest{Path: n, Content: []byte("first\nthe needle here\n")}); err != nil {
				tb.Fatalf("Write(%q): %v", n, err)
			}
		}
		e.out(tb, ctx, `printf 'needle\0x' > b.bin; mkfifo pipe; ln -s / root; ln -s /etc/passwd out; mkdir vendor; echo needle > vendor/v; echo vendor/ > .gitignore; ln -s . loop`)
		list, err := e.Files.List(ctx, &fspb.ListRequest{Recursive: true})
		if err != nil {
			tb.Fatal(err)
		}
		var paths []string
		for _, f := range list.GetEntries() {
			paths = append(paths, f.GetPath())
		}
		for _, n := range names {
			if !slices.Contains(paths, n) {
				tb.Errorf("%q is not listed", n)
			}
		}
		for _, n := range []string{"pipe", "root", "out", "loop/sub"} {
			if slices.Contains(paths, n) {
				tb.Errorf("%q is listed", n)
			}
		}
		hits, end := grep(tb, ctx, e, &fspb.GrepRequest{Pattern: "needle"})
		want(tb, "hits", len(hits), len(names))
		want(tb, "binary files", end.GetBinaryFiles(), 1)
		want(tb, "truncated", end.GetTruncated(), false)
		want(tb, "line", hits[0].GetLine(), 2)
		hits, end = grep(tb, ctx, e, &fspb.GrepRequest{Pattern: "needle", MaxMatches: 3})
		want(tb, "capped hits", len(hits), 3)
		want(tb, "capped", end.GetTruncated(), true)
		g, err := e.Files.Glob(ctx, &fspb.GlobRequest{Pattern: "*.txt"})
		if err != nil || len(g.GetEntries()) != 2 {
			tb.Errorf("Glob: %v %v", g, err)
		}
		seen, token := 0, ""
		for range 20 {
			page, err := e.Files.List(ctx, &fspb.ListRequest{PageSize: 4, PageToken: token})
			if err != nil {
				tb.Fatal(err)
			}
			seen += len(page.GetEntries())
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		all, err := e.Files.List(ctx, &fspb.ListRequest{})
		want(tb, "pages", seen, len(all.GetEntries()))
		want(tb, "error", err, nil)
	}},
	{"nothing outside can be named", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		e.out(tb, ctx, "ln -s /etc etc; ln -s ../../etc/passwd pw; mkdir sub; ln -s .. sub/up; mkfifo pipe; ln -s /proc/self/root magic")
		for _, p := range []string{"etc/passwd", "pw", "sub/up/../etc/passwd", "magic/etc/passwd"} {
			if r, err := e.Files.Read(ctx, &fspb.ReadRequest{Path: p}); err == nil {
				tb.Errorf("%s was read: %.40q", p, r.GetText())
			}
			if _, err := e.Files.Write(ctx, &fspb.WriteRequest{Path: p, Content: []byte("x")}); err == nil && p != "sub/up/../etc/passwd" {
				tb.Errorf("%s was written", p)
			}
		}
		_, err := e.Files.Read(ctx, &fspb.ReadRequest{Path: "../x"})
		refused(tb, "above the root", err, errdefs.ErrInvalidArgument, "PATH_INVALID")
		_, err = e.Files.Read(ctx, &fspb.ReadRequest{Path: "pipe"})
		refused(tb, "a pipe", err, errdefs.ErrFailedPrecondition, "NOT_REGULAR")
		_, err = e.Files.Read(ctx, &fspb.ReadRequest{Path: "sub"})
		refused(tb, "a directory", err, errdefs.ErrFailedPrecondition, "IS_DIRECTORY")
	}},
}

func grep(tb testing.TB, ctx context.Context, e *Env, req *fspb.GrepRequest) (hits []*fspb.Match, end *fspb.GrepEnd) {
	tb.Helper()
	stream, err := e.Files.Grep(ctx, req)
	if err != nil {
		tb.Fatal(err)
	}
	for {
		msg, err := stream.Recv()
		if err != nil {
			tb.Fatalf("Grep: %v", err)
		}
		if msg.GetEnd() != nil {
			return hits, msg.GetEnd()
		}
		hits = append(hits, msg.GetMatch())
	}
}
