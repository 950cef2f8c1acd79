package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// kept is a file service with a history that is always the same, in pages of two.
type kept struct {
	fsv1.UnimplementedFilesystemServiceServer
	asked []string
}

func (k *kept) ListRevisions(_ context.Context, r *fsv1.ListRevisionsRequest) (*fsv1.ListRevisionsResponse, error) {
	at := timestamppb.New(time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	all := []*fsv1.Revision{
		{Revision: "r5", SizeBytes: 50, Time: at, Author: "ana"}, {Revision: "r4", Time: at, Author: "ana", Deleted: true}, {Revision: "r3", SizeBytes: 30 << 10, Time: at, Author: "run:r1"},
	}
	if r.GetPageToken() == "" {
		return &fsv1.ListRevisionsResponse{Revisions: all[:2], NextPageToken: "2"}, nil
	}
	return &fsv1.ListRevisionsResponse{Revisions: all[2:]}, nil
}

func (k *kept) Stat(context.Context, *fsv1.StatRequest) (*fsv1.StatResponse, error) {
	return &fsv1.StatResponse{Info: &fsv1.FileInfo{Path: "a.txt", Revision: "r5"}}, nil
}

func (k *kept) DiffRevisions(_ context.Context, r *fsv1.DiffRevisionsRequest) (*fsv1.DiffRevisionsResponse, error) {
	k.asked = append(k.asked, fmt.Sprintf("diff %s %s %d", r.GetFromRevision(), r.GetToRevision(), r.GetContextLines()))
	return &fsv1.DiffRevisionsResponse{Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-o\x1bld\n+new\n", Truncated: r.GetToRevision() != ""}, nil
}

func (k *kept) RestoreRevision(_ context.Context, r *fsv1.RestoreRevisionRequest) (*fsv1.RestoreRevisionResponse, error) {
	k.asked = append(k.asked, fmt.Sprintf("restore %s %s", r.GetRevision(), r.GetIfRevision()))
	return &fsv1.RestoreRevisionResponse{Info: &fsv1.FileInfo{Path: "a.txt", SizeBytes: 30, Revision: "r6"}}, nil
}

func TestHistoryDiffAndRestore(t *testing.T) {
	impl := &kept{}
	f := serveFiles(t, impl)
	want := "r5            2026-03-01T10:00:00Z        50 B  ana\nr4            2026-03-01T10:00:00Z     deleted  ana\nr3            2026-03-01T10:00:00Z    30.0 KiB  run:r1\n"
	if got := f.ok("", "history", "a.txt"); got != want {
		t.Errorf("history:\n%s", got)
	}
	if code, out, errs := f.fs("", "history", "--limit=1", "--json", "a.txt"); code != ExitOK || out != `{"author":"ana","revision":"r5","size_bytes":"50","time":"2026-03-01T10:00:00Z"}`+"\n" || !strings.Contains(errs, "more follows") {
		t.Errorf("history --json: code %d, %s%s", code, out, errs)
	}
	if got := f.ok("", "diff", "a.txt"); got != "--- a\n+++ b\n@@ -1 +1 @@\n-o\\x1bld\n+new\n" {
		t.Errorf("diff: %q", got)
	}
	if code, out, errs := f.fs("", "diff", "-U", "1", "--json", "a.txt", "r1", "r2"); code != ExitOK || !strings.Contains(out, `"truncated":true`) || errs != "" {
		t.Errorf("diff --json: code %d, %s%s", code, out, errs)
	}
	if got := f.ok("", "restore", "a.txt", "r3", "--if-revision=r5"); got != "a.txt  30 bytes  revision r6\n" {
		t.Errorf("restore: %q", got)
	}
	// The version before the current one is neither the current one nor a deletion.
	if got := strings.Join(impl.asked, "; "); got != "diff r3  3; diff r1 r2 1; restore r3 r5" {
		t.Errorf("asked for: %s", got)
	}
	var out terminal
	if code := f.command(t.Context(), &Env{Out: &out, Err: &out}, "diff", "a.txt"); code != ExitOK || !strings.Contains(out.String(), "\x1b[31m-o\\x1bld\x1b[m\n\x1b[32m+new\x1b[m\n") {
		t.Errorf("on a terminal: code %d, %q", code, out.String())
	}
}

func TestWhatAServerDoesNotHave(t *testing.T) {
	f := serveFiles(t, fsv1.UnimplementedFilesystemServiceServer{})
	for _, args := range [][]string{{"history", "a"}, {"diff", "a", "r"}, {"restore", "a", "r"}, {"watch", "--once"}, {"du"}} {
		f.refused(args)
	}
}

// flaky is a watch that breaks off after each change, and once before the first; then it ends as it should.
type flaky struct {
	fsv1.UnimplementedFilesystemServiceServer
	cursors []string
}

func (s *flaky) Watch(r *fsv1.WatchRequest, stream grpc.ServerStreamingServer[fsv1.WatchResponse]) error {
	s.cursors = append(s.cursors, r.GetCursor())
	n := len(s.cursors)
	if n == 1 {
		return status.Error(codes.Unavailable, "restarting")
	}
	if n > 4 {
		return errgrpc.ToStatus(errdefs.New(errdefs.ErrOutOfRange, fsops.Domain, fsops.ReasonCursorExpired, "too old"))
	}
	send := func(m *fsv1.WatchResponse) error { return stream.Send(m) }
	if err := send(&fsv1.WatchResponse{Event: &fsv1.WatchResponse_Start{Start: &fsv1.WatchStart{Cursor: or(r.GetCursor(), "c0")}}}); err != nil {
		return err
	}
	if err := send(&fsv1.WatchResponse{Event: &fsv1.WatchResponse_Change{Change: &fsv1.Change{Cursor: fmt.Sprintf("c%d", n), Kind: fsv1.ChangeKind_CHANGE_KIND_WRITTEN, Path: fmt.Sprintf("f%d\n", n)}}}); err != nil {
		return err
	}
	if n == 3 {
		return send(&fsv1.WatchResponse{Event: &fsv1.WatchResponse_End{End: &fsv1.WatchEnd{Cursor: "c3end"}}})
	}
	return status.Error(codes.Unavailable, "restarting")
}

func TestWatchIsTakenUpAgain(t *testing.T) {
	impl := &flaky{}
	f := serveFiles(t, impl)
	var out, errs bytes.Buffer
	code := f.command(t.Context(), &Env{Out: &out, Err: &errs}, "watch")
	if got := strings.Join(impl.cursors, ","); got != ",,c2,c3end,c4" {
		t.Errorf("went on from %s", got)
	}
	if code != ExitFailed || !strings.Contains(errs.String(), "CURSOR_EXPIRED") || !strings.Contains(errs.String(), "without --cursor") {
		t.Errorf("an old cursor: code %d, %s", code, errs.String())
	}
	if got := out.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, `f2\n`) || !strings.Contains(got, `f4\n`) {
		t.Errorf("shown: %q", got)
	}
}

// TestEveryCommandShowsAnExample asks each command for help.
func TestEveryCommandShowsAnExample(t *testing.T) {
	_, out, _ := run(t, "", "fs", "--help")
	for _, name := range []string{"ls", "stat", "cat", "put", "get", "append", "edit", "rm", "mv", "glob", "grep", "du", "watch", "history", "diff", "restore", "export", "import", "path"} {
		if !strings.Contains(out, "fs "+name+" ") {
			t.Errorf("gantry fs --help does not list %s", name)
		}
		code, help, errs := run(t, "", "fs", name, "--help")
		if code != ExitOK || errs != "" || !strings.Contains(help, "Example") || !strings.Contains(help, "gantry fs "+name) || !strings.Contains(help, "--json") {
			t.Errorf("gantry fs %s --help: code %d, %s\n%s", name, code, errs, help)
		}
	}
}

func TestUnifiedDiffs(t *testing.T) {
	for name, tt := range map[string][3]string{
		"in the middle":    {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nV\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+V\n 6\n 7\n 8\n"},
		"at the end":       {"1\n2", "1\n2\n", "@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+2\n"},
		"from nothing":     {"", "1\n", "@@ -1,0 +1,1 @@\n+1\n"},
		"to nothing":       {"1\n", "", "@@ -1,1 +1,0 @@\n-1\n"},
		"repeated lines":   {"a\na\n", "a\na\na\n", "@@ -1,2 +1,3 @@\n a\n a\n+a\n"},
		"all is another":   {"a\n", "b\nc\n", "@@ -1,1 +1,2 @@\n-a\n+b\n+c\n"},
		"the first goes":   {"a\nb\n", "b\n", "@@ -1,2 +1,1 @@\n-a\n b\n"},
		"Windows' endings": {"a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"},
	} {
		if got := unified("x", []byte(tt[0]), []byte(tt[1])); got != "--- a/x\n+++ b/x\n"+tt[2] {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
