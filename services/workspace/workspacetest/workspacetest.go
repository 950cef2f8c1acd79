// Package workspacetest is the black-box suite of gantry.workspace.v1.WorkspaceService: any implementation passes it, at any address.
package workspacetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Run runs the suite against a connection that serves WorkspaceService, and FilesystemService over the same buckets. The suite uses agents of its own.
func Run(t testkit.T, connect func(t testkit.T) grpc.ClientConnInterface) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"empty definition", emptyDefinition},
		{"definition", definition},
		{"bad files", badFiles},
		{"rules of layers", rulesOfLayers},
		{"user override", userOverride},
		{"templates", templates},
		{"template conflicts", templateConflicts},
		{"agents", agents},
		{"tenants", tenants},
		{"manifest and blobs", manifest},
		{"usage and forget", usage},
		{"locate", locate},
		{"import", importing},
	} {
		t.Run(c.name, func(t testkit.T) {
			conn := connect(t)
			s := &suite{T: t, agent: newAgent()}
			s.connect(conn)
			c.test(s)
		})
	}
	t.Run("layers", func(t testkit.T) {
		RunLayers(t, func(t testkit.T) Layers { return Layers{Conn: connect(t), Agent: newAgent()} })
	})
}

// newAgent names an agent that nobody else uses.
func newAgent() string { return "wstest-" + strings.ToLower(rand.Text()[:10]) }

// suite is one case: an agent that nobody else uses.
type suite struct {
	testkit.T
	workspaces workspacev1.WorkspaceServiceClient
	files      filesystemv1.FilesystemServiceClient
	agent      string
	layers     Layers
}

func (s *suite) as(user string) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	s.Cleanup(cancel)
	return identity.NewContext(ctx, identity.Identity{Agent: s.agent, User: user, Session: "s1"})
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

func (s *suite) fails(err error, class error, reason string) {
	s.Helper()
	err = errgrpc.FromStatus(err)
	if !errors.Is(err, class) || errdefs.ReasonOf(err) != reason {
		s.Errorf("got error %v (reason %s), want %v with reason %s", err, errdefs.ReasonOf(err), class, reason)
	}
}

// put stores a template of name and content pairs.
func (s *suite) put(pairs ...string) *workspacev1.PutAgentTemplateResponse {
	s.Helper()
	out, err := s.workspaces.PutAgentTemplate(s.as("op"), &workspacev1.PutAgentTemplateRequest{Agent: s.agent, Files: templateFiles(pairs...), Overwrite: true})
	s.ok(err)
	return out
}

func templateFiles(pairs ...string) []*workspacev1.TemplateFile {
	var out []*workspacev1.TemplateFile
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, &workspacev1.TemplateFile{Path: pairs[i], Content: []byte(pairs[i+1])})
	}
	return out
}

func (s *suite) write(user, path, content string) {
	s.Helper()
	_, err := s.files.Write(s.as(user), &filesystemv1.WriteRequest{Path: path, Content: []byte(content)})
	s.ok(err)
}

func (s *suite) definition(user string) *workspacev1.Definition {
	s.Helper()
	out, err := s.workspaces.GetDefinition(s.as(user), &workspacev1.GetDefinitionRequest{})
	s.ok(err)
	return out.GetDefinition()
}

func emptyDefinition(s *suite) {
	d := s.definition("ana")
	if d.GetAgent() != s.agent || d.GetHasTemplate() || d.GetRules().GetSource() != nil || len(d.GetProblems()) != 0 || d.GetFingerprint() == "" {
		s.Errorf("an agent without anything: %v", d)
	}
	s.write("ana", "AGENTS.md", "mine")
	if got := s.definition("ana"); got.GetRules().GetText() != "mine" || got.GetRules().GetSource().GetLayer() != filesystemv1.Layer_LAYER_BUCKET {
		s.Errorf("an agent that lives from its bucket: %v", got.GetRules())
	}
}

func definition(s *suite) {
	s.put(
		"AGENTS.md", "Be kind.", "MEMORY.md", "Likes tea.", "knowledge/KNOWLEDGE.md", "Main.", "knowledge/deep/a.md", "More.",
		"skills/review/SKILL.md", "---\nname: review\ndescription: Reviews code\ntags: [a, b]\n---\nLook closely.\n", "skills/review/check.sh", "true",
		"skills/_drafts/x/SKILL.md", "---\ndescription: draft\n---\n", "skills/.archive/y/SKILL.md", "---\ndescription: old\n---\n",
		"subagents/helper.md", "---\ndescription: Helps\nsteps: 3\nworkspace: {mode: isolated}\n---\nYou help.\n",
		"tools.json", "{\n// no shell\n\"deny\": [\"execute\",],\n}", "agent.yaml", "max_steps: 9\n",
	)
	d := s.definition("ana")
	if d.GetRules().GetText() != "Be kind." || d.GetMemory().GetText() != "Likes tea." || d.GetKnowledge().GetMain().GetText() != "Main." || !d.GetHasTemplate() {
		s.Errorf("texts: %v", d)
	}
	sum := sha256.Sum256([]byte("Be kind."))
	if src := d.GetRules().GetSource(); src.GetPath() != "AGENTS.md" || src.GetSha256() != hex.EncodeToString(sum[:]) || src.GetRevision() == "" ||
		src.GetLayer() != filesystemv1.Layer_LAYER_TEMPLATE {
		s.Errorf("source of the rules: %v", src)
	}
	if files := d.GetKnowledge().GetFiles(); len(files) != 1 || files[0].GetPath() != "knowledge/deep/a.md" {
		s.Errorf("knowledge: %v", files)
	}
	if skills := d.GetSkills(); len(skills) != 1 || skills[0].GetName() != "review" || skills[0].GetDescription() != "Reviews code" ||
		skills[0].GetBody() != "Look closely.\n" || fmt.Sprint(skills[0].GetFiles()) != "[check.sh]" {
		s.Errorf("skills: %v", skills)
	}
	if subs := d.GetSubagents(); len(subs) != 1 || subs[0].GetId() != "helper" || subs[0].GetFrontMatter().GetFields()["steps"].GetNumberValue() != 3 {
		s.Errorf("subagents: %v", subs)
	}
	if tools := d.GetTools(); len(tools) != 1 || len(tools[0].GetConfig().GetFields()["deny"].GetListValue().GetValues()) != 1 {
		s.Errorf("tools: %v", tools)
	}
	if d.GetAgentConfig().GetFields()["max_steps"].GetNumberValue() != 9 || len(d.GetProblems()) != 0 {
		s.Errorf("settings %v, problems %v", d.GetAgentConfig(), d.GetProblems())
	}
	same, err := s.workspaces.GetDefinition(s.as("ana"), &workspacev1.GetDefinitionRequest{IfChangedFrom: d.GetFingerprint()})
	s.ok(err)
	if !same.GetUnchanged() || same.GetDefinition() != nil {
		s.Errorf("an unchanged definition: %v", same)
	}
	s.write("ana", "MEMORY.md", "Likes coffee.")
	if changed := s.definition("ana"); changed.GetFingerprint() == d.GetFingerprint() || changed.GetMemory().GetText() != "Likes coffee." {
		s.Errorf("a changed definition: %v", changed.GetMemory())
	}
	if ben := s.definition("ben"); ben.GetMemory().GetText() != "Likes tea." {
		s.Errorf("another user sees %v", ben.GetMemory())
	}
}

func badFiles(s *suite) {
	s.put(
		"skills/good/SKILL.md", "---\ndescription: Prepares offers: prices, terms\n---\n", "skills/bad/SKILL.md", "---\ndescription: [\n---\n",
		"skills/none/SKILL.md", "# No front matter\n", "subagents/blank.md", "---\ndescription: \" \"\n---\n", "subagents/ok.md", "---\ndescription: fine\n---\n",
		"tools.json", "{\n  \"allow\": [\"a\"\n  \"b\"]\n}", "agent.yaml", "- a list\n", "AGENTS.md", "ok",
	)
	d := s.definition("ana")
	if len(d.GetSkills()) != 1 || len(d.GetSubagents()) != 1 || d.GetRules().GetText() != "ok" {
		s.Errorf("the good files: %v", d)
	}
	got := map[string]string{}
	for _, p := range d.GetProblems() {
		got[p.GetPath()] = p.GetReason()
		if p.GetMessage() == "" || p.GetLeftOut() == (p.GetPath() == "skills/good/SKILL.md") {
			s.Errorf("problem %v", p)
		}
		if p.GetPath() == "tools.json" && (p.GetLine() != 3 || p.GetColumn() != 3) {
			s.Errorf("the position in tools.json is %d:%d, want 3:3", p.GetLine(), p.GetColumn())
		}
	}
	want := map[string]string{
		"skills/good/SKILL.md": "FRONT_MATTER_INVALID", "skills/bad/SKILL.md": "FRONT_MATTER_INVALID", "skills/none/SKILL.md": "FRONT_MATTER_INVALID",
		"subagents/blank.md": "DESCRIPTION_MISSING", "tools.json": "TOOLS_INVALID", "agent.yaml": "AGENT_CONFIG_INVALID",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("problems %v\nwant %v", got, want)
	}
	if tools := d.GetTools(); len(tools) != 1 || tools[0].GetConfig() != nil || tools[0].GetSource() == nil {
		s.Errorf("a tools.json that does not parse must be there without a config: %v", tools)
	}
}

// A bucket can neither lift what its template forbids nor change its settings.
func rulesOfLayers(s *suite) {
	s.put("tools.json", `{"deny": ["execute"]}`, "agent.yaml", "max_steps: 5\n")
	s.write("ana", "tools.json", `{"deny": []}`)
	s.write("ana", "agent.yaml", "max_steps: 500\n")
	d := s.definition("ana")
	if len(d.GetTools()) != 2 || d.GetTools()[0].GetSource().GetLayer() != filesystemv1.Layer_LAYER_BUCKET {
		s.Errorf("tools: %v", d.GetTools())
	}
	if d.GetAgentConfig().GetFields()["max_steps"].GetNumberValue() != 5 || len(d.GetProblems()) != 1 || d.GetProblems()[0].GetReason() != "IGNORED_IN_BUCKET" {
		s.Errorf("settings %v, problems %v", d.GetAgentConfig(), d.GetProblems())
	}
	_, err := s.files.Delete(s.as("ana"), &filesystemv1.DeleteRequest{Path: "tools.json"})
	s.ok(err)
	if d := s.definition("ana"); len(d.GetTools()) != 1 || d.GetTools()[0].GetSource().GetLayer() != filesystemv1.Layer_LAYER_TEMPLATE {
		s.Errorf("a whiteout hides the template's tools.json: %v", d.GetTools())
	}
}

func userOverride(s *suite) {
	s.put("AGENTS.md", "all", "ana/AGENTS.md", "for ana", "ana/notes.txt", "no static name", "knowledge/a.md", "x")
	if got := s.definition("ana").GetRules(); got.GetText() != "for ana" || got.GetSource().GetLayer() != filesystemv1.Layer_LAYER_USER {
		s.Errorf("ana's rules: %v", got)
	}
	if got := s.definition("ben").GetRules().GetText(); got != "all" {
		s.Errorf("ben's rules: %q", got)
	}
	for _, path := range []string{"ana/AGENTS.md", "notes.txt", "ana"} {
		for _, user := range []string{"ana", "ben"} {
			_, err := s.files.Stat(s.as(user), &filesystemv1.StatRequest{Path: path})
			s.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
		}
	}
}

func templates(s *suite) {
	first := s.put("AGENTS.md", "1", "skills/a/SKILL.md", "x")
	if !first.GetCreated() || first.GetInfo().GetKind() != workspacev1.TemplateKind_TEMPLATE_KIND_STORED || first.GetInfo().GetFingerprint() == "" {
		s.Errorf("put: %v", first)
	}
	got, err := s.workspaces.GetAgentTemplate(s.as("op"), &workspacev1.GetAgentTemplateRequest{Agent: s.agent})
	s.ok(err)
	if len(got.GetFiles()) != 2 || got.GetFiles()[0].GetPath() != "AGENTS.md" || string(got.GetFiles()[0].GetContent()) != "1" {
		s.Errorf("get: %v", got)
	}
	second := s.put("AGENTS.md", "2")
	if second.GetCreated() || second.GetInfo().GetFingerprint() == first.GetInfo().GetFingerprint() {
		s.Errorf("replace: %v", second)
	}
	_, err = s.files.Stat(s.as("ana"), &filesystemv1.StatRequest{Path: "skills"})
	s.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
	gone, err := s.workspaces.DeleteAgentTemplate(s.as("op"), &workspacev1.DeleteAgentTemplateRequest{Agent: s.agent})
	s.ok(err)
	if gone.GetFiles() != 1 {
		s.Errorf("deleted %d files, want 1", gone.GetFiles())
	}
	_, err = s.workspaces.GetAgentTemplate(s.as("op"), &workspacev1.GetAgentTemplateRequest{Agent: s.agent})
	s.fails(err, errdefs.ErrNotFound, "AGENT_NOT_FOUND")
	_, err = s.workspaces.DeleteAgentTemplate(s.as("op"), &workspacev1.DeleteAgentTemplateRequest{Agent: s.agent})
	s.fails(err, errdefs.ErrNotFound, "AGENT_NOT_FOUND")
}

func templateConflicts(s *suite) {
	first := s.put("AGENTS.md", "1")
	put := func(req *workspacev1.PutAgentTemplateRequest) error {
		req.Agent = s.agent
		_, err := s.workspaces.PutAgentTemplate(s.as("op"), req)
		return err
	}
	s.fails(put(&workspacev1.PutAgentTemplateRequest{Files: templateFiles("a", "")}), errdefs.ErrAlreadyExists, "AGENT_EXISTS")
	s.fails(put(&workspacev1.PutAgentTemplateRequest{Files: templateFiles("AGENTS.md", ""), IfFingerprint: "other"}), errdefs.ErrAborted, "FINGERPRINT_CONFLICT")
	s.ok(put(&workspacev1.PutAgentTemplateRequest{Files: templateFiles("AGENTS.md", "2"), IfFingerprint: first.GetInfo().GetFingerprint()}))
	for path, reason := range map[string]string{"../x": "PATH_INVALID", "": "IS_DIRECTORY"} {
		s.fails(put(&workspacev1.PutAgentTemplateRequest{Files: templateFiles("AGENTS.md", "3", path, ""), Overwrite: true}), classOf(reason), reason)
	}
	s.fails(put(&workspacev1.PutAgentTemplateRequest{Files: templateFiles("a", "1", "a", "2"), Overwrite: true}), errdefs.ErrAlreadyExists, "PATH_EXISTS")
	s.fails(put(&workspacev1.PutAgentTemplateRequest{Files: templateFiles("a", "1", "a/b", "2"), Overwrite: true}), errdefs.ErrFailedPrecondition, "NOT_A_DIRECTORY")
	if got := s.definition("ana").GetRules().GetText(); got != "2" {
		s.Errorf("a refused template left %q", got)
	}
	id := effect.Random(time.Now())
	once := identity.NewContext(s.as("op"), identity.Identity{Agent: s.agent, User: "op", Effect: id})
	req := &workspacev1.PutAgentTemplateRequest{Agent: s.agent, Files: templateFiles("AGENTS.md", "once"), Overwrite: true}
	for range 2 {
		_, err := s.workspaces.PutAgentTemplate(once, req)
		s.ok(err)
	}
	req.Files = templateFiles("AGENTS.md", "other")
	_, err := s.workspaces.PutAgentTemplate(once, req)
	s.fails(err, errdefs.ErrAborted, "EFFECT_MISMATCH")
}

func classOf(reason string) error {
	if reason == "IS_DIRECTORY" {
		return errdefs.ErrFailedPrecondition
	}
	return errdefs.ErrInvalidArgument
}

func agents(s *suite) {
	base := s.agent
	for _, name := range []string{"-c", "-a", "-b"} {
		s.agent = base + name
		s.put("AGENTS.md", name)
	}
	var got []string
	for token := ""; ; {
		page, err := s.workspaces.ListAgents(s.as("op"), &workspacev1.ListAgentsRequest{PageSize: 2, PageToken: token})
		s.ok(err)
		for _, a := range page.GetAgents() {
			if strings.HasPrefix(a.GetAgent(), base) {
				got = append(got, strings.TrimPrefix(a.GetAgent(), base))
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[-a -b -c]" {
		s.Errorf("agents %v", got)
	}
	_, err := s.workspaces.ListAgents(s.as("op"), &workspacev1.ListAgentsRequest{PageToken: "zzz"})
	s.fails(err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
}

// tenants: agents of the same name in other agents' spaces are apart; here by agent ids that look like paths.
func tenants(s *suite) {
	base := s.agent
	for _, name := range []string{"/x", "/../x", "", "/X"} {
		s.agent = base + name
		s.put("AGENTS.md", "rules of "+name)
	}
	for _, name := range []string{"/x", "/../x", "", "/X"} {
		s.agent = base + name
		if got := s.definition("ana").GetRules().GetText(); got != "rules of "+name {
			s.Errorf("agent %q has the rules %q", s.agent, got)
		}
	}
}

func manifest(s *suite) {
	s.put("AGENTS.md", "rules", "knowledge/a.md", strings.Repeat("k", 600_000), "skills/s/run.sh", "true", "skills/s/SKILL.md", "x", "MEMORY.md", "m")
	s.write("ana", "knowledge/b.md", "own")
	s.write("ana", "notes.txt", "not static")
	_, err := s.files.Delete(s.as("ana"), &filesystemv1.DeleteRequest{Path: "skills/s/run.sh"})
	s.ok(err)
	m, err := s.workspaces.GetManifest(s.as("ana"), &workspacev1.GetManifestRequest{})
	s.ok(err)
	var paths []string
	for _, e := range m.GetEntries() {
		paths = append(paths, e.GetPath())
		if len(e.GetSha256()) != 64 || e.GetMode() == 0 || e.GetLayer() == filesystemv1.Layer_LAYER_UNSPECIFIED {
			s.Errorf("entry %v", e)
		}
	}
	if fmt.Sprint(paths) != "[AGENTS.md knowledge/a.md knowledge/b.md skills/s/SKILL.md]" {
		s.Errorf("manifest %v", paths)
	}
	wide, err := s.workspaces.GetManifest(s.as("ana"), &workspacev1.GetManifestRequest{IncludeRuntime: true, Include: []string{"/*.txt"}})
	s.ok(err)
	if len(wide.GetEntries()) != 6 || wide.GetFingerprint() == m.GetFingerprint() {
		s.Errorf("a wider manifest: %v", wide)
	}
	want := append(m.GetEntries(), &workspacev1.ManifestEntry{Path: "AGENTS.md", Sha256: strings.Repeat("0", 64)}, &workspacev1.ManifestEntry{Path: "gone", Sha256: strings.Repeat("0", 64)})
	got, missing := s.blobs("ana", want)
	if fmt.Sprint(missing) != "[AGENTS.md gone]" || len(got) != 4 {
		s.Errorf("%d blobs, missing %v", len(got), missing)
	}
	for _, e := range m.GetEntries() {
		sum := sha256.Sum256(got[e.GetPath()])
		if hex.EncodeToString(sum[:]) != e.GetSha256() {
			s.Errorf("the bytes of %s don't have the SHA-256 of the manifest", e.GetPath())
		}
	}
}

func (s *suite) blobs(user string, entries []*workspacev1.ManifestEntry) (got map[string][]byte, missing []string) {
	s.Helper()
	stream, err := s.workspaces.FetchBlobs(s.as(user), &workspacev1.FetchBlobsRequest{Entries: entries})
	s.ok(err)
	got = map[string][]byte{}
	current, ended := "", false
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if !ended {
				s.Error("no end message")
			}
			return got, missing
		}
		s.ok(err)
		switch part := message.GetPart().(type) {
		case *workspacev1.FetchBlobsResponse_Header:
			current = part.Header.GetPath()
			got[current] = nil
		case *workspacev1.FetchBlobsResponse_Chunk:
			got[current] = append(got[current], part.Chunk...)
		case *workspacev1.FetchBlobsResponse_Missing:
			missing = append(missing, part.Missing.GetPath())
		case *workspacev1.FetchBlobsResponse_End:
			ended = int(part.End.GetFiles()) == len(got)
		}
	}
}

func usage(s *suite) {
	s.put("AGENTS.md", "template")
	s.write("ana", "a", "12345")
	_, err := s.files.Delete(s.as("ana"), &filesystemv1.DeleteRequest{Path: "AGENTS.md"})
	s.ok(err)
	got, err := s.workspaces.GetUsage(s.as("ana"), &workspacev1.GetUsageRequest{})
	s.ok(err)
	if got.GetUsage().GetUsedBytes() != 5 || got.GetUsage().GetUsedFiles() != 1 || got.GetWhiteouts() != 1 || got.GetBucket() == "" {
		s.Errorf("usage: %v", got)
	}
	s.write("ben", "b", "1")
	if _, err := s.workspaces.ForgetBucket(s.as("ana"), &workspacev1.ForgetBucketRequest{}); errdefs.ClassOf(errgrpc.FromStatus(err)) != errdefs.ErrInvalidArgument {
		s.Errorf("forget without confirmation: %v", err)
	}
	gone, err := s.workspaces.ForgetBucket(s.as("ana"), &workspacev1.ForgetBucketRequest{Confirm: true})
	s.ok(err)
	if gone.GetFiles() != 1 {
		s.Errorf("forgot %d files, want 1", gone.GetFiles())
	}
	_, err = s.files.Stat(s.as("ana"), &filesystemv1.StatRequest{Path: "a"})
	s.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
	if got := s.definition("ana").GetRules().GetText(); got != "template" {
		s.Errorf("after forgetting, the template shows %q", got)
	}
	_, err = s.files.Stat(s.as("ben"), &filesystemv1.StatRequest{Path: "b"})
	s.ok(err)
}

func locate(s *suite) {
	got, err := s.workspaces.LocateBucket(s.as("ana"), &workspacev1.LocateBucketRequest{})
	if err != nil {
		s.fails(err, errdefs.ErrFailedPrecondition, "NO_PLAIN_FILES")
		return
	}
	other, err := s.workspaces.LocateBucket(s.as("ben"), &workspacev1.LocateBucketRequest{})
	s.ok(err)
	if got.GetDirectory() == "" || got.GetDirectory() == other.GetDirectory() || got.GetBackend() == "" {
		s.Errorf("located %v and %v", got, other)
	}
}

func importing(s *suite) {
	_, err := s.workspaces.ImportWorkspace(s.as("op"), &workspacev1.ImportWorkspaceRequest{Directory: "/x", Agent: s.agent})
	s.fails(err, errdefs.ErrPermissionDenied, "IMPORT_NOT_ALLOWED")
}
