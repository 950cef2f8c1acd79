package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/workspacetest"
)

func TestWorkspace(t *testing.T) {
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite, workspace.BackendPostgres, workspace.BackendRedis, workspace.BackendObject} {
		t.Run(backend, func(t *testing.T) {
			conn := connect(t, backend)
			workspacetest.Run(testkit.Wrap(t), func(testkit.T) grpc.ClientConnInterface { return conn })
		})
	}
}

// put writes files of the host.
func put(t testing.TB, dir string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(dir, pairs[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(pairs[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func as(t *testing.T, id identity.Identity) context.Context {
	return identity.NewContext(t.Context(), id)
}

// A template that is a directory shows the names of the layout and what it includes, follows what its engineers do, and nothing else of the host.
func TestTemplateDirectory(t *testing.T) {
	cfg := settings(t, workspace.BackendLocal)
	secret := filepath.Join(t.TempDir(), "secret.txt")
	put(t, filepath.Dir(secret), "secret.txt", "secret")
	put(t, cfg.Workspace,
		"AGENTS.md", "rules", "deploy.env", "KEY=1", "rules/a.md", "included", "ana/AGENTS.md", "for ana", "ana/deploy.env", "KEY=2", "Ben/knowledge/k.md", "for Ben",
		"knowledge/x.md", "k", "agents/default/sessions/other.jsonl", "somebody's", "agent.yaml", "template: {include: [\"rules/**\"]}\n", "skills/skills/SKILL.md", "x")
	if err := os.Symlink(secret, filepath.Join(cfg.Workspace, "knowledge", "leak.md")); err != nil {
		t.Fatal(err)
	}
	conn := serve(t, cfg, access.Options{})
	files, workspaces := filesystemv1.NewFilesystemServiceClient(conn), workspacev1.NewWorkspaceServiceClient(conn)
	list := func(user string) string {
		t.Helper()
		page, err := files.Glob(as(t, identity.Identity{User: user}), &filesystemv1.GlobRequest{Pattern: "**"})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range page.GetEntries() {
			out = append(out, e.GetPath())
		}
		return strings.Join(out, " ")
	}
	const shared = "AGENTS.md agent.yaml knowledge/x.md rules/a.md skills/skills/SKILL.md"
	for user, want := range map[string]string{
		"ana": shared, "cy": shared, "skills": shared, "Ben": strings.Replace(shared, "knowledge/x.md", "knowledge/k.md knowledge/x.md", 1),
	} {
		if got := list(user); got != want {
			t.Errorf("%s sees %s\nwant %s", user, got, want)
		}
	}
	for _, path := range []string{"deploy.env", "ana/AGENTS.md", "agents/default/sessions/other.jsonl", "../secret.txt", secret} {
		if _, err := files.Stat(as(t, identity.Identity{User: "cy"}), &filesystemv1.StatRequest{Path: path}); err == nil {
			t.Errorf("%s is seen", path)
		}
	}
	if _, err := files.Read(as(t, identity.Identity{User: "cy"}), &filesystemv1.ReadRequest{Path: "knowledge/leak.md"}); errdefs.ReasonOf(err) != "OUTSIDE_ROOT" {
		t.Errorf("a link that leads out: %v", err)
	}
	put(t, cfg.Workspace, "AGENTS.md", "new rules")
	got, err := workspaces.GetDefinition(as(t, identity.Identity{User: "cy"}), &workspacev1.GetDefinitionRequest{})
	if err != nil || got.GetDefinition().GetRules().GetText() != "new rules" {
		t.Errorf("after an edit outside: %v, %v", got.GetDefinition().GetRules(), err)
	}
	_, err = files.Write(as(t, identity.Identity{User: "cy"}), &filesystemv1.WriteRequest{Path: "AGENTS.md", Layer: filesystemv1.Layer_LAYER_TEMPLATE})
	if errdefs.ReasonOf(err) != "READ_ONLY" {
		t.Errorf("a write to the directory: %v", err)
	}
	_, err = workspaces.PutAgentTemplate(as(t, identity.Identity{}), &workspacev1.PutAgentTemplateRequest{
		Agent: "default", Overwrite: true, Files: []*workspacev1.TemplateFile{{Path: "x"}},
	})
	if errdefs.ReasonOf(err) != "TEMPLATE_IS_DIRECTORY" {
		t.Errorf("a template over a directory: %v", err)
	}

	// The bucket of scope agent is the directory itself.
	agent := as(t, identity.Identity{Scope: identity.ScopeAgent})
	if _, err := files.Write(agent, &filesystemv1.WriteRequest{Path: "MEMORY.md", Content: []byte("shared")}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(cfg.Workspace, "MEMORY.md")); err != nil || string(data) != "shared" {
		t.Errorf("the workspace directory holds %q, %v", data, err)
	}
	if _, err := files.Stat(agent, &filesystemv1.StatRequest{Path: ".gantry-runtime"}); errdefs.ReasonOf(err) != "PATH_INVALID" {
		t.Errorf("the service's own data: %v", err)
	}
	if _, err := workspaces.ForgetBucket(agent, &workspacev1.ForgetBucketRequest{Confirm: true}); err == nil {
		t.Error("the engineers' directory was forgotten")
	}
}

// What a capability allows is enforced here, whatever the caller's tools believe.
func TestGrants(t *testing.T) {
	key, err := access.LoadOrCreateKey(filepath.Join(t.TempDir(), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	minter, err := access.NewMinter(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := serve(t, settings(t, workspace.BackendSQLite), access.Options{KeySet: minter.KeySet()})
	files := filesystemv1.NewFilesystemServiceClient(conn)
	id := identity.Identity{Tenant: identity.DefaultTenant, Agent: identity.DefaultAgent, User: "ana", Session: "s"}
	bucket, err := id.Bucket()
	if err != nil {
		t.Fatal(err)
	}
	with := func(verbs, prefixes []string) context.Context {
		t.Helper()
		ctx, err := minter.Attach(identity.NewContext(t.Context(), id), access.Capability{Identity: id, Bucket: bucket, Run: "r1", Epoch: 1, Verbs: verbs, PathPrefixes: prefixes})
		if err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	write := func(ctx context.Context, path string) error {
		_, err := files.Write(ctx, &filesystemv1.WriteRequest{Path: path, Content: []byte("needle")})
		return err
	}
	run := with([]string{"fs.read", "fs.write"}, nil)
	for _, path := range []string{"AGENTS.md", "tools.json", "agent.yaml", "skills/x/SKILL.md", "subagents/x.md", "/a/../AGENTS.md", "agents.md", "skills/_drafts/../x"} {
		if err := write(run, path); errdefs.ReasonOf(err) != "READ_ONLY" {
			t.Errorf("write %s without definition.write: %v", path, err)
		}
	}
	for _, path := range []string{"MEMORY.md", "skills/_drafts/x/SKILL.md", "knowledge/a.md", "x/AGENTS.md", "secret/a", "plans/PLAN.md"} {
		if err := write(run, path); err != nil {
			t.Errorf("write %s: %v", path, err)
		}
	}
	if _, err := files.Move(run, &filesystemv1.MoveRequest{FromPath: "x/AGENTS.md", ToPath: "AGENTS.md"}); errdefs.ReasonOf(err) != "READ_ONLY" {
		t.Errorf("move onto the rules: %v", err)
	}
	if _, err := files.Delete(run, &filesystemv1.DeleteRequest{Path: "skills", Recursive: true}); errdefs.ReasonOf(err) != "READ_ONLY" {
		t.Errorf("delete the skills: %v", err)
	}
	for _, path := range []string{"memory/.provenance/2026-01-01.jsonl", "Memory/.x", "memory/a/../.provenance/f", "memory"} {
		if err := write(run, path); errdefs.ReasonOf(err) != "READ_ONLY" {
			t.Errorf("write %s, a record of the memory service, without memory.write: %v", path, err)
		}
	}
	if err := write(with([]string{"fs.read", "fs.write", "memory.write"}, nil), "memory/.provenance/2026-01-01.jsonl"); err != nil {
		t.Errorf("with memory.write: %v", err)
	}
	if err := write(with([]string{"fs.read", "fs.write", "definition.write"}, nil), "AGENTS.md"); err != nil {
		t.Errorf("with definition.write: %v", err)
	}
	if err := write(with([]string{"fs.read"}, nil), "x"); errdefs.ClassOf(err) != errdefs.ErrPermissionDenied {
		t.Errorf("without fs.write: %v", err)
	}
	if _, err := files.Write(run, &filesystemv1.WriteRequest{Path: "knowledge/t.md", Layer: filesystemv1.Layer_LAYER_TEMPLATE}); errdefs.ReasonOf(err) != "READ_ONLY" {
		t.Errorf("a lower layer without template.write: %v", err)
	}
	info, err := files.Stat(run, &filesystemv1.StatRequest{Path: "MEMORY.md"})
	if err != nil || info.GetInfo().GetAuthor() != "run:r1" {
		t.Errorf("the author: %v, %v", info, err)
	}

	plan := with([]string{"fs.read", "fs.write"}, []string{"plans", "knowledge"})
	if err := write(plan, "plans/PLAN.md"); err != nil {
		t.Errorf("inside the prefixes: %v", err)
	}
	for _, path := range []string{"secret/a", "plans2/x", "plans/../secret/a"} {
		if err := write(plan, path); errdefs.ReasonOf(err) != "PATH_NOT_ALLOWED" {
			t.Errorf("write %s outside the prefixes: %v", path, err)
		}
		if _, err := files.Read(plan, &filesystemv1.ReadRequest{Path: path}); errdefs.ReasonOf(err) != "PATH_NOT_ALLOWED" {
			t.Errorf("read %s outside the prefixes: %v", path, err)
		}
	}
	page, err := files.List(plan, &filesystemv1.ListRequest{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.GetEntries() {
		if p := e.GetPath(); !strings.HasPrefix(p, "plans") && !strings.HasPrefix(p, "knowledge") {
			t.Errorf("a listing shows %s", p)
		}
	}
	found, err := files.Glob(plan, &filesystemv1.GlobRequest{Pattern: "**"})
	if err != nil || len(found.GetEntries()) != 2 {
		t.Errorf("glob: %v, %v", found, err)
	}
	stream, err := files.Grep(plan, &filesystemv1.GrepRequest{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if end := message.GetEnd(); end != nil {
			if end.GetMatches() != 2 {
				t.Errorf("grep finds %d files, want the 2 that the capability covers", end.GetMatches())
			}
			break
		}
	}
	other := id
	other.User = "ben"
	token, _, err := minter.Mint(access.Capability{Identity: id, Bucket: bucket, Run: "r1", Verbs: []string{"fs.read"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.NewTokenContext(identity.NewContext(t.Context(), other), token)
	if _, err := files.Stat(ctx, &filesystemv1.StatRequest{}); errdefs.ClassOf(err) != errdefs.ErrPermissionDenied {
		t.Errorf("metadata against the capability: %v", err)
	}
}
