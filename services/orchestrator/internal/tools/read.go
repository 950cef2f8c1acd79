package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Bounds of what one reading call shows the model.
const (
	listPageSize   = 500
	grepMaxMatches = 200
)

type readIn struct {
	Path        string `json:"path" jsonschema:"file to read, relative to the workspace"`
	Offset      int64  `json:"offset,omitempty" jsonschema:"first line to show, counted from 0"`
	Limit       int64  `json:"limit,omitempty" jsonschema:"most lines to show; 2000 when left out"`
	OffsetBytes int64  `json:"offset_bytes,omitempty" jsonschema:"byte position to go on from inside a very long line, as told by the call before"`
}

type listIn struct {
	Path      string `json:"path,omitempty" jsonschema:"directory to list; the workspace itself when left out"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"also everything below"`
	PageToken string `json:"page_token,omitempty" jsonschema:"token told by the call before"`
}

type globIn struct {
	Pattern   string `json:"pattern" jsonschema:"glob with * ? ** [..] {a,b}; without a slash it matches at any depth"`
	Path      string `json:"path,omitempty" jsonschema:"directory to begin at"`
	PageToken string `json:"page_token,omitempty" jsonschema:"token told by the call before"`
}

type grepIn struct {
	Pattern    string `json:"pattern" jsonschema:"text to find, taken literally unless regex is true"`
	Regex      bool   `json:"regex,omitempty" jsonschema:"take the pattern as an RE2 regular expression"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"ignore letter case"`
	Path       string `json:"path,omitempty" jsonschema:"file or directory to search; everything when left out"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files that match this glob"`
	Context    int32  `json:"context,omitempty" jsonschema:"lines to show around each match, at most 20"`
}

func (env Env) readTools() []tool.Tool {
	spec := func(name, description string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectNone, ReadOnly: true, ConcurrencySafe: true, Subject: "path"}
	}
	return []tool.Tool{
		tool.Func(spec("read_file", "Read a text file of the workspace. Long files come in pages; the answer says how to go on."), env.readFile),
		tool.Func(spec("list_files", "List a directory of the workspace."), env.listFiles),
		tool.Func(spec("glob_files", "Find files of the workspace by a pattern of their path."), env.globFiles),
		tool.Func(spec("grep_files", "Search the text of the workspace's files."), env.grepFiles),
	}
}

func (env Env) readFile(ctx context.Context, _ tool.Call, in readIn) (tool.Result, error) {
	got, err := env.Files.Read(ctx, &fsv1.ReadRequest{Path: in.Path, OffsetLines: max(in.Offset, 0), LimitLines: in.Limit, OffsetBytes: max(in.OffsetBytes, 0)})
	if err != nil {
		return tool.Result{}, err
	}
	if got.GetBinary() {
		return tool.OK(fmt.Sprintf("[%s is a binary file of %d bytes; it can't be shown as text]", in.Path, got.GetInfo().GetSizeBytes())), nil
	}
	text := got.GetText()
	switch {
	case got.GetInfo().GetSizeBytes() == 0:
		text = fmt.Sprintf("[%s is empty]", in.Path)
	case text == "":
		text = fmt.Sprintf("[end of file: %s has %d lines]", in.Path, got.GetTotalLines())
	case got.GetMore() && got.GetPartialLine():
		text += fmt.Sprintf("\n[the line goes on: read again with offset_bytes=%d]", got.GetNextOffsetBytes())
	case got.GetMore():
		text += fmt.Sprintf("\n[more follows: read again with offset=%d; the file has %d lines]", got.GetNextOffsetLines(), got.GetTotalLines())
	}
	if got.GetReplaced() {
		text += "\n[some bytes were no valid UTF-8 and are shown as U+FFFD]"
	}
	return tool.OK(text).With("revision", got.GetInfo().GetRevision()).With("sha256", got.GetInfo().GetSha256()), nil
}

func (env Env) listFiles(ctx context.Context, _ tool.Call, in listIn) (tool.Result, error) {
	got, err := env.Files.List(ctx, &fsv1.ListRequest{Path: in.Path, Recursive: in.Recursive, PageSize: listPageSize, PageToken: in.PageToken})
	if err != nil {
		return tool.Result{}, err
	}
	return listing(got.GetEntries(), got.GetNextPageToken(), got.GetWarnings(), "[the directory is empty]"), nil
}

func (env Env) globFiles(ctx context.Context, _ tool.Call, in globIn) (tool.Result, error) {
	got, err := env.Files.Glob(ctx, &fsv1.GlobRequest{Pattern: in.Pattern, Path: in.Path, PageSize: listPageSize, PageToken: in.PageToken})
	if err != nil {
		return tool.Result{}, err
	}
	return listing(got.GetEntries(), got.GetNextPageToken(), got.GetWarnings(), "[no file matches]"), nil
}

// listing shows one path a line: directories end with a slash, files have their size.
func listing(entries []*fsv1.FileInfo, next string, warnings []string, empty string) tool.Result {
	var b strings.Builder
	for _, e := range entries {
		if e.GetKind() == fsv1.FileKind_FILE_KIND_DIRECTORY {
			fmt.Fprintf(&b, "%s/\n", e.GetPath())
		} else {
			fmt.Fprintf(&b, "%s (%d bytes)\n", e.GetPath(), e.GetSizeBytes())
		}
	}
	if len(entries) == 0 {
		b.WriteString(empty + "\n")
	}
	if next != "" {
		fmt.Fprintf(&b, "[more follows: call again with page_token=%s]\n", next)
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "[not read: %s]\n", w)
	}
	return tool.OK(strings.TrimSuffix(b.String(), "\n"))
}

func (env Env) grepFiles(ctx context.Context, _ tool.Call, in grepIn) (tool.Result, error) {
	context := min(max(in.Context, 0), 20)
	stream, err := env.Files.Grep(ctx, &fsv1.GrepRequest{
		Pattern: in.Pattern, Regex: in.Regex, IgnoreCase: in.IgnoreCase, Path: in.Path, Glob: in.Glob,
		ContextBefore: context, ContextAfter: context, MaxMatches: grepMaxMatches,
	})
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			// The stream ended without its end message: what came is not everything.
			b.WriteString("[the search broke off; this is not complete]")
			return tool.OK(b.String()), nil
		}
		if err != nil {
			return tool.Result{}, err
		}
		if m := msg.GetMatch(); m != nil {
			writeMatch(&b, m)
			continue
		}
		return tool.OK(b.String() + grepEnd(msg.GetEnd())), nil
	}
}

func writeMatch(b *strings.Builder, m *fsv1.Match) {
	for i, line := range m.GetBefore() {
		fmt.Fprintf(b, "%s-%d-%s\n", m.GetPath(), m.GetLine()-int64(len(m.GetBefore())-i), line)
	}
	fmt.Fprintf(b, "%s:%d:%s\n", m.GetPath(), m.GetLine(), m.GetText())
	for i, line := range m.GetAfter() {
		fmt.Fprintf(b, "%s-%d-%s\n", m.GetPath(), m.GetLine()+int64(i)+1, line)
	}
}

func grepEnd(end *fsv1.GrepEnd) string {
	text := fmt.Sprintf("[%d matches in %d files searched", end.GetMatches(), end.GetFiles())
	if end.GetBinaryFiles() > 0 {
		text += fmt.Sprintf(", %d binary files skipped", end.GetBinaryFiles())
	}
	if end.GetTruncated() {
		text += "; INCOMPLETE (" + end.GetReason() + "): narrow the search to see the rest"
	}
	text += "]"
	for _, w := range end.GetWarnings() {
		text += "\n[not read: " + w + "]"
	}
	return text
}
