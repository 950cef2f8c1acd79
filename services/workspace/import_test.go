package workspace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace"
)

// imports is a service that may import from below a directory.
type imports struct {
	t    *testing.T
	dir  string // holds workspaces
	cfg  workspace.Config
	conn grpc.ClientConnInterface
}

func newImports(t *testing.T) *imports {
	cfg := settings(t, workspace.BackendSQLite)
	i := &imports{t: t, dir: t.TempDir(), cfg: cfg}
	i.cfg.ImportDirs = []string{i.dir}
	i.conn = serve(t, i.cfg, access.Options{})
	return i
}

func (i *imports) run(dir string, dry bool) *workspacev1.ImportWorkspaceResponse {
	i.t.Helper()
	got, err := workspacev1.NewWorkspaceServiceClient(i.conn).ImportWorkspace(as(i.t, identity.Identity{User: "operator"}), &workspacev1.ImportWorkspaceRequest{
		Directory: dir, Agent: "coder", DryRun: dry,
	})
	if err != nil {
		i.t.Fatal(err)
	}
	return got
}

// bucket is what a bucket itself holds: contents by path.
func (i *imports) bucket(id identity.Identity) map[string]string {
	i.t.Helper()
	id.Agent = "coder"
	client, out := filesystemv1.NewFilesystemServiceClient(i.conn), map[string]string{}
	page, err := client.List(as(i.t, id), &filesystemv1.ListRequest{Recursive: true, Layer: filesystemv1.Layer_LAYER_BUCKET, PageSize: 5000})
	if err != nil {
		i.t.Fatal(err)
	}
	for _, e := range page.GetEntries() {
		if e.GetKind() != filesystemv1.FileKind_FILE_KIND_FILE {
			continue
		}
		got, err := client.Read(as(i.t, id), &filesystemv1.ReadRequest{Path: e.GetPath(), Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
		if err != nil {
			i.t.Fatal(err)
		}
		out[e.GetPath()] = string(got.GetData())
	}
	return out
}

// said is the conversation of a session, one line a message.
func (i *imports) said(user, session string) []string {
	i.t.Helper()
	ctx := as(i.t, identity.Identity{Agent: "coder", User: user, Session: session})
	stream, err := threadv1.NewThreadServiceClient(i.conn).Scan(ctx, &threadv1.ScanRequest{})
	if err != nil {
		i.t.Fatal(err)
	}
	var out []string
	for {
		m, err := stream.Recv()
		if errors.Is(err, errdefs.ErrNotFound) || errors.Is(err, io.EOF) || m.GetEnd() != nil {
			return out
		}
		if err != nil {
			i.t.Fatal(err)
		}
		message := m.GetEvent().GetPayload().GetMessageAppended().GetMessage()
		if message == nil {
			continue
		}
		line := strings.ToLower(strings.TrimPrefix(message.GetRole().String(), "ROLE_")) + ":"
		for _, b := range message.GetBlocks() {
			switch {
			case b.GetToolCall() != nil:
				line += fmt.Sprintf(" call %s %s(%s)", b.GetToolCall().GetId(), b.GetToolCall().GetName(), b.GetToolCall().GetArgumentsJson())
			case b.GetToolResult() != nil:
				line += fmt.Sprintf(" result %s %q", b.GetToolResult().GetCallId(), b.GetToolResult().GetText())
			default:
				line += " " + b.GetText()
			}
		}
		out = append(out, line)
	}
}

// sessions are the threads of a user, with their titles.
func (i *imports) sessions(user string) map[string]string {
	i.t.Helper()
	got, err := threadv1.NewThreadServiceClient(i.conn).List(as(i.t, identity.Identity{Agent: "coder", User: user}), &threadv1.ListRequest{})
	if err != nil {
		i.t.Fatal(err)
	}
	out := map[string]string{}
	for _, h := range got.GetHeads() {
		if h.GetOpenRunId() != "" || h.GetOwner() != nil {
			i.t.Errorf("session %s of %s has an open run or an owner", h.GetThread().GetSession(), user)
		}
		out[h.GetThread().GetSession()] = h.GetTitle()
	}
	return out
}

const anaLog = `{"type":"message","id":"m1","parentId":null,"timestamp":"2026-03-01T10:00:00Z","role":"USER","content":"Count the words\nplease"}
{"type":"message","id":"m2","parentId":"m1","role":"ASSISTANT","content":"I will look."}
{"type":"tool_use","id":"m2:use:c1","parentId":"m2","toolCallId":"c1","name":"read_file","input":{"path":"a.txt"},"truncated":false}
{"type":"tool_use","id":"m2:use:c2","parentId":"m2","toolCallId":"c2","name":"list_files","input":{}}
this line is broken
{"type":"tool_result","id":"m3:result:c1","toolCallId":"c1","name":"read_file","output":"one two","truncated":true,"originalSize":5000}
{"type":"message","id":"m4","role":"ASSISTANT","content":"Two words."}
{"type":"message","id":"m4","role":"ASSISTANT","content":"Two words."}
{"type":"message","id":"m5","role":"SYSTEM","content":"You are a prompt."}
`

// oldWorkspace makes a workspace with one of everything.
func (i *imports) oldWorkspace(name string) string {
	i.t.Helper()
	dir := filepath.Join(i.dir, name)
	put(i.t, dir,
		"AGENTS.md", "shared rules", "knowledge/KNOWLEDGE.md", "shared", "MEMORY.md", "nobody's", "memory/2026-01-01.md", "- of nobody\n", "notes.txt", "whose?", "build/out.bin", "x",
		".index/workspace.db", "db", "agents/coder/sessions/s0.log.jsonl", `{"role":"USER","content":"hello from nobody"}`+"\n",
		"ana/AGENTS.md", "ana's rules", "ana/MEMORY.md", "ana likes tea", "ana/memory/2026-03-01.md", "- old\n", "ana/memory/2026-03-09.md", "- new\n", "ana/memory/archive/2025-01-01.md", "- oldest\n",
		"ana/memory/.consolidation_state", "2026-03-05T00:00:00.123Z\n", "ana/memory/.provenance/MEMORY.jsonl", "forged", "ana/plans/PLAN.md", "plan", "ana/docs/ü/deep.txt", "deep", "ana/logo.png", "\x89PNG\x00\x01",
		"ana/agents/coder/sessions/s1.log.jsonl", anaLog, "ana/agents/coder/sessions/s1.jsonl", anaLog, "ana/agents/coder/sessions/sessions.json", "{}",
		"ana/agents/coder/sessions/short.jsonl", `{"type":"message","id":"x","role":"USER","content":"only the compacted log"}`+"\n", "ana/agents/coder/sessions/empty.log.jsonl", "not json\n",
		"ana/agents/coder/memory/2026-03-02.md", "- from the agent's ledger\n", "ana/agents/coder/tasks/s1.json", "{}", "ana/agents/critic/workspace/x.md", "x",
		"ben/MEMORY.md", "ben likes coffee", "ben/agents/coder/sessions/s1.log.jsonl", `{"type":"message","id":"m1","role":"USER","content":"ben's secret"}`+"\n")
	for name, at := range map[string]string{"ana/memory/2026-03-01.md": "2026-03-01", "ana/memory/2026-03-09.md": "2026-03-09", "ana/agents/coder/memory/2026-03-02.md": "2026-03-02"} {
		day, err := time.Parse(time.DateOnly, at)
		if err := errors.Join(err, os.Chtimes(filepath.Join(dir, name), day, day)); err != nil {
			i.t.Fatal(err)
		}
	}
	outside := filepath.Join(i.t.TempDir(), "secret")
	put(i.t, outside, "secret.txt", "outside")
	err := errors.Join(
		os.Symlink("../ben/MEMORY.md", filepath.Join(dir, "ana", "stolen.md")), os.Symlink(outside, filepath.Join(dir, "ana", "out")),
		os.Symlink("ben", filepath.Join(dir, "cy")), syscall.Mkfifo(filepath.Join(dir, "ben", "pipe"), 0o600))
	if err != nil {
		i.t.Fatal(err)
	}
	return dir
}

func TestImportTakesOverWhatUsersHave(t *testing.T) {
	i := newImports(t)
	dir := i.oldWorkspace("old")
	got := i.run(dir, false)

	want := map[string]string{
		"AGENTS.md": "ana's rules", "MEMORY.md": "ana likes tea", "memory/2026-03-01.md": "- old\n", "memory/2026-03-09.md": "- new\n", "memory/archive/2025-01-01.md": "- oldest\n",
		"memory/2026-03-02.md": "- from the agent's ledger\n", "plans/PLAN.md": "plan", "docs/ü/deep.txt": "deep", "logo.png": "\x89PNG\x00\x01",
	}
	ana := i.bucket(identity.Identity{User: "ana"})
	mark := ana["memory/.consolidation.json"]
	delete(ana, "memory/.consolidation.json")
	if diff := cmp.Diff(want, ana); diff != "" {
		t.Errorf("ana's bucket (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"MEMORY.md": "ben likes coffee"}, i.bucket(identity.Identity{User: "ben"})); diff != "" {
		t.Errorf("ben's bucket (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"MEMORY.md": "nobody's", "memory/2026-01-01.md": "- of nobody\n"}, i.bucket(identity.Identity{Scope: identity.ScopeAgent})); diff != "" {
		t.Errorf("the agent's bucket (-want +got):\n%s", diff)
	}
	var state struct {
		Version int
		RunTime time.Time `json:"run_time"`
		Ledgers map[string]struct{ Bytes int }
	}
	if err := json.Unmarshal([]byte(mark), &state); err != nil || state.Version != 1 || state.RunTime.Format(time.RFC3339) != "2026-03-05T00:00:00Z" {
		t.Errorf("watermark %s: %v", mark, err)
	}
	if names := slices.Sorted(maps.Keys(state.Ledgers)); !slices.Equal(names, []string{"memory/2026-03-01.md", "memory/2026-03-02.md"}) || state.Ledgers["memory/2026-03-01.md"].Bytes != 6 {
		t.Errorf("ledgers behind the watermark: %v", state.Ledgers)
	}

	if diff := cmp.Diff([]string{
		"user: Count the words\nplease",
		`assistant: I will look. call c1 read_file({"path":"a.txt"}) call c2 list_files({})`,
		`tool: result c1 "one two\n[the log kept the beginning of 5000 characters]" result c2 "The log has no result of this call."`,
		"assistant: Two words.",
	}, i.said("ana", "s1")); diff != "" {
		t.Errorf("ana's conversation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"s1": "Count the words", "short": "only the compacted log"}, i.sessions("ana")); diff != "" {
		t.Errorf("ana's threads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"s1": "ben's secret"}, i.sessions("ben")); diff != "" {
		t.Errorf("ben's threads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"user: hello from nobody"}, i.said("", "s0")); diff != "" {
		t.Errorf("the conversation of nobody (-want +got):\n%s", diff)
	}

	report := slices.Clone(got.GetLeftOut())
	slices.Sort(report)
	if diff := cmp.Diff([]string{
		".index: an index of files, which Gantry makes itself",
		"AGENTS.md: it stays the template: name the directory as the workspace of the agent, and it works as it is",
		"ana/agents/coder/sessions/empty.log.jsonl: it has no message",
		"ana/agents/coder/sessions/s1.log.jsonl: lines no JSON object of the format: 1",
		"ana/agents/coder/sessions/s1.log.jsonl: lines of the system: prompts are made anew: 1",
		"ana/agents/coder/sessions/s1.log.jsonl: lines written twice: 1",
		"ana/agents/coder/sessions: 1 compacted logs (*.jsonl): the full logs beside them hold everything",
		"ana/agents/coder/tasks: records of tasks: the task service keeps its own, and the runs of these are gone",
		`ana/agents/critic: it belongs to the agent "critic": import it for that one`,
		"ana/memory/.provenance/MEMORY.jsonl: records of a memory service, which are not taken from others",
		"ana/out: a link",
		"ana/stolen.md: a link",
		"ben/pipe: no regular file",
		"build: no user's directory: it has none of the names of a workspace in it",
		"cy: a link",
		"knowledge: it stays the template: name the directory as the workspace of the agent, and it works as it is",
		"notes.txt: it belongs to no user",
	}, report); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if got.GetFiles() != 13 || got.GetThreads() != 4 || got.GetUnchangedFiles() != 0 || got.GetUnchangedThreads() != 0 || got.GetMore() || got.GetLeftOutCount() != int64(len(report)) {
		t.Errorf("report: %v", got)
	}
}

func TestImportAgainChangesNothing(t *testing.T) {
	i := newImports(t)
	dir := i.oldWorkspace("old")
	first := i.run(dir, false)
	ctx := as(t, identity.Identity{Agent: "coder", User: "ana"})
	files := filesystemv1.NewFilesystemServiceClient(i.conn)
	if _, err := files.Delete(ctx, &filesystemv1.DeleteRequest{Path: "logo.png"}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write(ctx, &filesystemv1.WriteRequest{Path: "plans/PLAN.md", Content: []byte("a better plan")}); err != nil {
		t.Fatal(err)
	}
	before, said := i.bucket(identity.Identity{User: "ana"}), i.said("ana", "s1")
	again := i.run(dir, false)
	if again.GetFiles() != 0 || again.GetThreads() != 0 || again.GetUnchangedFiles() != first.GetFiles()-1 || again.GetUnchangedThreads() != first.GetThreads() {
		t.Errorf("the second import: %v", again)
	}
	if !slices.Contains(again.GetLeftOut(), "ana/plans/PLAN.md: the bucket has another one there already") {
		t.Errorf("the file that ana changed is not listed: %q", again.GetLeftOut())
	}
	if diff := cmp.Diff(before, i.bucket(identity.Identity{User: "ana"})); diff != "" {
		t.Errorf("ana's bucket changed, which she had changed:\n%s", diff)
	}
	if diff := cmp.Diff(said, i.said("ana", "s1")); diff != "" {
		t.Errorf("ana's conversation changed:\n%s", diff)
	}

	// What is new is taken over; a log that has grown is told, and not doubled.
	put(t, dir, "ana/new.txt", "new", "ana/agents/coder/sessions/s2.log.jsonl", `{"role":"USER","content":"new session"}`, "ana/agents/coder/sessions/s1.log.jsonl", anaLog+`{"type":"message","id":"m9","role":"USER","content":"more"}`)
	third := i.run(dir, false)
	if third.GetFiles() != 1 || third.GetThreads() != 1 || !slices.ContainsFunc(third.GetLeftOut(), func(s string) bool { return strings.Contains(s, "the log has changed since") }) {
		t.Errorf("the third import: %v", third)
	}
	if diff := cmp.Diff(said, i.said("ana", "s1")); diff != "" {
		t.Errorf("ana's conversation changed:\n%s", diff)
	}
}

func TestImportThatIsDryChangesNothing(t *testing.T) {
	i := newImports(t)
	dir := i.oldWorkspace("old")
	dry := i.run(dir, true)
	for _, user := range []string{"ana", "ben"} {
		if got := i.bucket(identity.Identity{User: user}); len(got) > 0 {
			t.Errorf("%s has files: %v", user, got)
		}
		if got := i.sessions(user); len(got) > 0 {
			t.Errorf("%s has threads: %v", user, got)
		}
	}
	wet := i.run(dir, false)
	if dry.GetFiles() != wet.GetFiles() || dry.GetThreads() != wet.GetThreads() || !slices.Equal(dry.GetLeftOut(), wet.GetLeftOut()) {
		t.Errorf("what was announced: %v\nwhat was done: %v", dry, wet)
	}
}

func TestImportIsRefusedOutsideOfItsDirectories(t *testing.T) {
	i := newImports(t)
	outside := i.dir + "-beside"
	put(t, outside, "ana/MEMORY.md", "x")
	put(t, i.dir, "file", "x")
	if err := os.Symlink(outside, filepath.Join(i.dir, "link")); err != nil {
		t.Fatal(err)
	}
	client := workspacev1.NewWorkspaceServiceClient(i.conn)
	for dir, want := range map[string]string{
		outside: "IMPORT_NOT_ALLOWED", "/etc": "IMPORT_NOT_ALLOWED", i.dir + "/../" + filepath.Base(outside): "IMPORT_NOT_ALLOWED", "old": "IMPORT_NOT_ALLOWED", "../old": "IMPORT_NOT_ALLOWED",
		i.dir + "/link": "IMPORT_UNREADABLE", i.dir + "/link/ana": "IMPORT_UNREADABLE", i.dir + "/file": "IMPORT_UNREADABLE", i.dir + "/nothing": "IMPORT_UNREADABLE",
	} {
		_, err := client.ImportWorkspace(as(t, identity.Identity{}), &workspacev1.ImportWorkspaceRequest{Directory: dir, Agent: "coder"})
		if errdefs.ReasonOf(err) != want {
			t.Errorf("%s: %v, want %s", dir, err, want)
		}
	}
	// Without directories nothing can be imported, and the error says which setting to make.
	conn := serve(t, settings(t, workspace.BackendSQLite), access.Options{})
	_, err := workspacev1.NewWorkspaceServiceClient(conn).ImportWorkspace(as(t, identity.Identity{}), &workspacev1.ImportWorkspaceRequest{Directory: i.dir, Agent: "coder"})
	if !errors.Is(err, errdefs.ErrPermissionDenied) || !strings.Contains(err.Error(), "import-dirs") {
		t.Errorf("without the setting: %v", err)
	}
}

// Users whose names begin alike, differ by case, or mean something to a file system or a database, keep what is theirs.
func TestImportKeepsUsersApart(t *testing.T) {
	i := newImports(t)
	users := []string{"a", "ab", "a.", "A", "a b", "a%", "a_", "a:b", "*", "con", "ü", "default", "~", "=41", "a=2fb", "memoryx", "MEMORY", strings.Repeat("long", 20)}
	dir := filepath.Join(i.dir, "many")
	for _, user := range users {
		put(t, dir, user+"/MEMORY.md", "of "+user, user+"/agents/coder/sessions/s.log.jsonl", `{"role":"USER","content":"`+user+`"}`)
	}
	put(t, dir, "\xff\xfe/MEMORY.md", "not UTF-8", "line\nbreak/MEMORY.md", "x", ".hidden/MEMORY.md", "x", "..a/MEMORY.md", "x")
	got := i.run(dir, false)
	if n := int64(len(users)); got.GetFiles() != n || got.GetThreads() != n || got.GetLeftOutCount() != 4 {
		t.Errorf("report: %v", got)
	}
	for _, user := range users {
		if diff := cmp.Diff(map[string]string{"MEMORY.md": "of " + user}, i.bucket(identity.Identity{User: user})); diff != "" {
			t.Errorf("%q's bucket (-want +got):\n%s", user, diff)
		}
		if diff := cmp.Diff(map[string]string{"s": user}, i.sessions(user)); diff != "" {
			t.Errorf("%q's threads (-want +got):\n%s", user, diff)
		}
	}
	for _, id := range []identity.Identity{{Scope: identity.ScopeAgent}, {Scope: identity.ScopeGlobal}, {User: "other"}, {User: "a", Session: "s", Scope: identity.ScopeSession}} {
		if got := i.bucket(id); len(got) > 0 {
			t.Errorf("%v has %v", id, got)
		}
	}
}

// A workspace that is the agent's template already: what engineers keep stays where it is, and is seen as before.
func TestImportOfTheTemplateItself(t *testing.T) {
	cfg := settings(t, workspace.BackendLocal)
	dir := t.TempDir()
	cfg.ImportDirs, cfg.Agents = []string{dir}, map[string]string{"coder": filepath.Join(dir, "coder")}
	i := &imports{t: t, dir: dir, cfg: cfg}
	i.oldWorkspace("coder")
	i.conn = serve(t, cfg, access.Options{})
	got := i.run(filepath.Join(dir, "coder"), false)
	for _, line := range got.GetLeftOut() {
		if strings.HasPrefix(line, "AGENTS.md") || strings.HasPrefix(line, "knowledge") || strings.HasPrefix(line, "MEMORY.md") {
			t.Errorf("it works as it is, and is listed: %s", line)
		}
	}
	ana := i.bucket(identity.Identity{User: "ana"})
	if _, copied := ana["AGENTS.md"]; copied || ana["MEMORY.md"] != "ana likes tea" {
		t.Errorf("ana's bucket: %v", ana)
	}
	seen, err := filesystemv1.NewFilesystemServiceClient(i.conn).Read(as(t, identity.Identity{Agent: "coder", User: "ana"}), &filesystemv1.ReadRequest{Path: "AGENTS.md"})
	if err != nil || seen.GetText() != "ana's rules" || seen.GetInfo().GetLayer() != filesystemv1.Layer_LAYER_USER {
		t.Errorf("ana sees %v, %v", seen, err)
	}
	if again := i.run(filepath.Join(dir, "coder"), false); again.GetFiles() != 0 || again.GetThreads() != 0 {
		t.Errorf("the second import: %v", again)
	}
}

// Two imports of one workspace at the same time take everything over once.
func TestImportsAtOnce(t *testing.T) {
	i := newImports(t)
	dir := i.oldWorkspace("old")
	const imports = 4
	errs := make(chan error, imports)
	for range imports {
		go func() {
			_, err := workspacev1.NewWorkspaceServiceClient(i.conn).ImportWorkspace(as(t, identity.Identity{}), &workspacev1.ImportWorkspaceRequest{Directory: dir, Agent: "coder"})
			errs <- err
		}()
	}
	for range imports {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	// What one of them left out because another one was at it is there by now, or is taken over by the next.
	i.run(dir, false)
	if got := i.run(dir, false); got.GetFiles() != 0 || got.GetThreads() != 0 || got.GetUnchangedFiles() != 13 || got.GetUnchangedThreads() != 4 {
		t.Errorf("afterwards: %v", got)
	}
	if got := i.said("ana", "s1"); len(got) != 4 {
		t.Errorf("ana's conversation: %q", got)
	}
}
