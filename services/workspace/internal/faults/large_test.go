package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/filesystem"
	"github.com/gantry-agents/gantry/services/workspace/internal/templates"
)

// served is a client of the service over a store, through the whole chain.
func served(t *testing.T, store files.Store) filesystemv1.FilesystemServiceClient {
	t.Helper()
	auth, err := access.New(access.Config{Mode: access.ModeNone}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:workspace"}, chain, network)
	if err != nil {
		t.Fatal(err)
	}
	layers := templates.New(templates.Config{Workspace: t.TempDir()}, store)
	filesystemv1.RegisterFilesystemServiceServer(s.Registrar(), filesystem.New(&caller.Resolver{Store: store, Templates: layers, Now: time.Now}))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := client.Dial("memory:workspace", network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), s.Stop(context.Background()), layers.Close()); err != nil {
			t.Error(err)
		}
	})
	return filesystemv1.NewFilesystemServiceClient(conn)
}

func asAna(t *testing.T) context.Context {
	return identity.NewContext(t.Context(), identity.Identity{Agent: "coder", User: "ana"})
}

// TestLongLines writes a file whose lines have 6 MB and goes on reading inside of them, edits one and searches them.
func TestLongLines(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		c, ctx := served(t, store), asAna(t)
		const length = 6 << 20
		line := func(r rune) string { return strings.Repeat(string(r), length/utf8.RuneLen(r)) }
		text := line('a') + "needle" + line('ü') + "\n" + "short\n" + line('z')
		if len(text) > 15<<20 {
			text = text[:15<<20]
		}
		if _, err := c.Write(ctx, &filesystemv1.WriteRequest{Path: "long", Content: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		var read strings.Builder
		for offset := int64(0); ; {
			got, err := c.Read(ctx, &filesystemv1.ReadRequest{Path: "long", OffsetBytes: offset, LimitBytes: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(got.GetText()) || got.GetReplaced() || got.GetNextOffsetBytes() <= offset && got.GetMore() {
				t.Fatalf("at %d: replaced %t, next %d", offset, got.GetReplaced(), got.GetNextOffsetBytes())
			}
			read.WriteString(got.GetText())
			if offset = got.GetNextOffsetBytes(); !got.GetMore() {
				break
			}
		}
		if read.String() != text {
			t.Errorf("the pieces have %d bytes, not the %d of the file", read.Len(), len(text))
		}
		stream, err := c.Grep(ctx, &filesystemv1.GrepRequest{Pattern: "NEEDLE", IgnoreCase: true})
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.Recv()
		if err != nil || m.GetMatch().GetColumn() != length+1 || !m.GetMatch().GetTextTruncated() || len(m.GetMatch().GetText()) > 8000 {
			t.Errorf("the match is at %d, cut %t, %d bytes: %v", m.GetMatch().GetColumn(), m.GetMatch().GetTextTruncated(), len(m.GetMatch().GetText()), err)
		}
		drain(stream)
		edited, err := c.Edit(ctx, &filesystemv1.EditRequest{Path: "long", Replacements: []*filesystemv1.Replacement{{OldText: "needle", NewText: "pin"}}})
		if err != nil || edited.GetInfo().GetSizeBytes() != int64(len(text)-3) || len(edited.GetDiff()) > 20<<10 {
			t.Errorf("the edit: %d bytes, a diff of %d: %v", edited.GetInfo().GetSizeBytes(), len(edited.GetDiff()), err)
		}
	})
}

// drain reads a stream to its end.
func drain[M any](stream grpc.ServerStreamingClient[M]) {
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}

// TestInvalidUTF8 keeps bytes as they are, shows them as text with a flag, finds what is around them, and edits without touching them.
func TestInvalidUTF8(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		c, ctx := served(t, store), asAna(t)
		raw := []byte("one \xff\xfe two\nthree\xc3\nfour \xed\xa0\x80 five\n")
		if _, err := c.Write(ctx, &filesystemv1.WriteRequest{Path: "raw", Content: raw}); err != nil {
			t.Fatal(err)
		}
		bytesOf := func() []byte {
			got, err := c.Read(ctx, &filesystemv1.ReadRequest{Path: "raw", Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
			if err != nil {
				t.Fatal(err)
			}
			return got.GetData()
		}
		if got := bytesOf(); !bytes.Equal(got, raw) {
			t.Errorf("the bytes are %q", got)
		}
		got, err := c.Read(ctx, &filesystemv1.ReadRequest{Path: "raw"})
		if err != nil || !got.GetReplaced() || !utf8.ValidString(got.GetText()) || !strings.Contains(got.GetText(), "two\nthree\ufffd\n") {
			t.Errorf("the text is %q, replaced %t: %v", got.GetText(), got.GetReplaced(), err)
		}
		stream, err := c.Grep(ctx, &filesystemv1.GrepRequest{Pattern: "four.*five", Regex: true})
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.Recv()
		if err != nil || m.GetMatch().GetLine() != 3 || !utf8.ValidString(m.GetMatch().GetText()) {
			t.Errorf("found %v: %v", m, err)
		}
		drain(stream)
		_, err = c.Edit(ctx, &filesystemv1.EditRequest{Path: "raw", Replacements: []*filesystemv1.Replacement{{OldText: "three", NewText: "3"}}})
		if want := bytes.Replace(raw, []byte("three"), []byte("3"), 1); err != nil || !bytes.Equal(bytesOf(), want) {
			t.Errorf("after the edit the bytes are %q: %v", bytesOf(), err)
		}
	})
}

// TestManyFiles lists 60,000 files in pages: each once, in order, in bounded memory. Stores that take a minute to be filled have fewer, in as many pages.
func TestManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 60,000 files in each store")
	}
	const heap = 96 << 20
	each(t, func(t *testing.T, store files.Store) {
		many, page := 60_000, int32(5000)
		if name := t.Name(); strings.HasSuffix(name, "/sqlite") || strings.HasSuffix(name, "/postgres") || strings.HasSuffix(name, "S3") {
			many, page = 3000, 250
		}
		c, ctx := served(t, store), asAna(t)
		if dir, plain, err := store.Locate(ana); err != nil {
			t.Fatal(err)
		} else if plain {
			makeFiles(t, dir, many) // as people make them: each is on the disk when it is acknowledged, which takes long
		}
		for from := 0; from < many && !store.Capabilities().PlainFiles; from += 1000 {
			req := &filesystemv1.ApplyChangesRequest{}
			for i := from; i < from+1000; i++ {
				req.Changes = append(req.Changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Write{Write: &filesystemv1.WriteRequest{
					Path: fmt.Sprintf("d%d/f%05d", i%7, i), Content: []byte("x"),
				}}})
			}
			if _, err := c.ApplyChanges(ctx, req); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		peak := uint64(0)
		seen, last := 0, ""
		for token := ""; ; {
			got, err := c.List(ctx, &filesystemv1.ListRequest{Recursive: true, PageSize: page, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got.GetEntries() {
				if e.GetPath() <= last {
					t.Fatalf("%q comes after %q", e.GetPath(), last)
				}
				if last = e.GetPath(); e.GetKind() == filesystemv1.FileKind_FILE_KIND_FILE {
					seen++
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
			if token = got.GetNextPageToken(); token == "" {
				break
			}
		}
		if seen != many {
			t.Errorf("%d files are listed", seen)
		}
		if peak > before.HeapAlloc+heap {
			t.Errorf("the heap grew by %d MiB", (peak-before.HeapAlloc)>>20)
		}
		if _, err := c.Delete(ctx, &filesystemv1.DeleteRequest{Path: "d3"}); errdefs.ReasonOf(err) != fsops.ReasonDirectoryNotEmpty {
			t.Errorf("delete a full directory: %v", err)
		}
		if store.Capabilities().PlainFiles {
			return // each file is taken from the disk by itself
		}
		got, err := c.Delete(ctx, &filesystemv1.DeleteRequest{Path: "d3", Recursive: true})
		if err != nil || got.GetFiles() != int64((many-4)/7+1) {
			t.Errorf("delete: %d files, %v", got.GetFiles(), err)
		}
	})
}

// makeFiles makes the files beside the service.
func makeFiles(t *testing.T, dir string, many int) {
	t.Helper()
	for i := range many {
		path := filepath.Join(dir, fmt.Sprintf("d%d/f%05d", i%7, i))
		if i < 7 {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
