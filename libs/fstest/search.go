package fstest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
)

func globs(u *user) {
	for _, name := range []string{"a.md", "a.txt", "d/b.md", "d/e/c.md", ".h/z.md", "vendor/v.md"} {
		u.write("g/"+name, name)
	}
	u.write("g/.gitignore", "vendor/\n")
	for _, tt := range []struct {
		req  *filesystemv1.GlobRequest
		want string
	}{
		{&filesystemv1.GlobRequest{Pattern: "*.md"}, "g/a.md g/d/b.md g/d/e/c.md"},
		{&filesystemv1.GlobRequest{Pattern: "/*.md"}, "g/a.md"},
		{&filesystemv1.GlobRequest{Pattern: "**/*.md", PageSize: 1}, "g/a.md g/d/b.md g/d/e/c.md"},
		{&filesystemv1.GlobRequest{Pattern: "d/*"}, "g/d/b.md"},
		{&filesystemv1.GlobRequest{Pattern: "{a,b}.md"}, "g/a.md g/d/b.md"},
		{&filesystemv1.GlobRequest{Pattern: "?.[mt]*"}, "g/a.md g/a.txt g/d/b.md g/d/e/c.md"},
		{&filesystemv1.GlobRequest{Pattern: ".h/*"}, "g/.h/z.md"},
		{&filesystemv1.GlobRequest{Pattern: "v.md"}, ""},
		{&filesystemv1.GlobRequest{Pattern: "v.md", IncludeIgnored: true}, "g/vendor/v.md"},
		{&filesystemv1.GlobRequest{Pattern: "d/**", IncludeDirectories: true}, "g/d/b.md g/d/e g/d/e/c.md"},
	} {
		tt.req.Path = "g"
		name := tt.req.GetPattern()
		if got := strings.Join(u.glob(tt.req), " "); got != tt.want {
			u.Errorf("%q = %s\nwant %s", name, got, tt.want)
		}
	}
	_, err := u.client.Glob(u.ctx, &filesystemv1.GlobRequest{Pattern: "["})
	u.fails(err, errdefs.ErrInvalidArgument, "PATTERN_INVALID")
}

func lines(matches []*filesystemv1.Match) string {
	var out []string
	for _, m := range matches {
		out = append(out, fmt.Sprintf("%s:%d:%d:%s", m.GetPath(), m.GetLine(), m.GetColumn(), m.GetText()))
	}
	return strings.Join(out, "|")
}

func greps(u *user) {
	u.write("a.txt", "one\ntwo a[0].b( x\nthree\n")
	u.write("d/b.md", "Two\r\ntwo\r\n")
	u.write("v/x.txt", "two ignored\n")
	u.write(".gitignore", "v/\n")
	for _, tt := range []struct {
		name string
		req  *filesystemv1.GrepRequest
		want string
	}{
		{"literal", &filesystemv1.GrepRequest{Pattern: "a[0].b("}, "a.txt:2:5:two a[0].b( x"},
		{"case", &filesystemv1.GrepRequest{Pattern: "two", Glob: "*.md"}, "d/b.md:2:1:two"},
		{"ignore case", &filesystemv1.GrepRequest{Pattern: "TWO", IgnoreCase: true, Path: "d"}, "d/b.md:1:1:Two|d/b.md:2:1:two"},
		{"regular expression", &filesystemv1.GrepRequest{Pattern: "^t[hw]", Regex: true, Path: "a.txt"}, "a.txt:2:1:two a[0].b( x|a.txt:3:1:three"},
		{"one file", &filesystemv1.GrepRequest{Pattern: "two", Path: "a.txt"}, "a.txt:2:1:two a[0].b( x"},
		{"ignored", &filesystemv1.GrepRequest{Pattern: "ignored"}, ""},
		{"ignored included", &filesystemv1.GrepRequest{Pattern: "ignored", IncludeIgnored: true}, "v/x.txt:1:5:two ignored"},
	} {
		got, end := u.grep(tt.req)
		if lines(got) != tt.want || end.GetTruncated() || end.GetMatches() != int64(len(got)) {
			u.Errorf("%s: got %s, %v\nwant %s", tt.name, lines(got), end, tt.want)
		}
	}
	got, _ := u.grep(&filesystemv1.GrepRequest{Pattern: "a[0]", ContextBefore: 2, ContextAfter: 1})
	if len(got) != 1 || strings.Join(got[0].GetBefore(), "|") != "one" || strings.Join(got[0].GetAfter(), "|") != "three" {
		u.Errorf("context: %v", got)
	}
	stream, err := u.client.Grep(u.ctx, &filesystemv1.GrepRequest{Pattern: "(", Regex: true})
	if err == nil {
		_, err = stream.Recv()
	}
	u.fails(err, errdefs.ErrInvalidArgument, "PATTERN_INVALID")
}

func grepLimits(u *user) {
	u.write("many", strings.Repeat("dup\n", 300))
	got, end := u.grep(&filesystemv1.GrepRequest{Pattern: "dup", MaxMatches: 20})
	if len(got) != 20 || !end.GetTruncated() || end.GetReason() != "max_matches" {
		u.Errorf("%d matches, %v", len(got), end)
	}
	got, end = u.grep(&filesystemv1.GrepRequest{Pattern: "dup", MaxMatches: 300})
	if len(got) != 300 || end.GetTruncated() {
		u.Errorf("as many matches as allowed: %d, %v", len(got), end)
	}
	u.write("slow", strings.Repeat("a", 50_000)+"!")
	start := time.Now()
	u.grep(&filesystemv1.GrepRequest{Pattern: "(a+)+$", Regex: true, Path: "slow"})
	if d := time.Since(start); d > 20*time.Second {
		u.Errorf("a nested repetition took %v", d)
	}
	_, end = u.grep(&filesystemv1.GrepRequest{Pattern: "nowhere", MaxTime: durationpb.New(time.Nanosecond)})
	if !end.GetTruncated() || end.GetReason() != "max_time" {
		u.Errorf("a search out of time says %v", end)
	}
}

func binary(u *user) {
	u.write("t.txt", "needle\n")
	data := bytes.Repeat([]byte("needle\x00"), 600)
	u.write("b.bin", string(data))
	got, end := u.grep(&filesystemv1.GrepRequest{Pattern: "needle"})
	if lines(got) != "t.txt:1:1:needle" || end.GetBinaryFiles() != 1 {
		u.Errorf("got %s, %v", lines(got), end)
	}
	read, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("b.bin"), Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
	u.ok(err)
	if !read.GetBinary() || !bytes.Equal(read.GetData(), data) || read.GetInfo().GetSizeBytes() != int64(len(data)) {
		u.Errorf("read of a binary file: %d bytes, binary %v", len(read.GetData()), read.GetBinary())
	}
}

func cancelled(u *user) {
	u.write("f", "1")
	ctx, cancel := context.WithCancel(u.ctx)
	cancel()
	_, err := u.client.Write(ctx, &filesystemv1.WriteRequest{Path: u.at("f"), Content: []byte("2")})
	if status.Code(err) != codes.Canceled && errdefs.ClassOf(errgrpc.FromStatus(err)) != errdefs.ErrCanceled {
		u.Errorf("got %v", err)
	}
	u.holds("f", "1")
}
