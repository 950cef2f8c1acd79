package workspace_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace"
)

const inTemplate, inUser = filesystemv1.Layer_LAYER_TEMPLATE, filesystemv1.Layer_LAYER_USER

func writing(path string, layer filesystemv1.Layer) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Write{Write: &filesystemv1.WriteRequest{Path: path, Layer: layer, Content: []byte("x")}}}
}

func moving(from, to string) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Move{Move: &filesystemv1.MoveRequest{FromPath: from, ToPath: to}}}
}

func removing(path string) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Delete{Delete: &filesystemv1.DeleteRequest{Path: path, Recursive: true}}}
}

// A capability holds for each path of a change set, and for history as for what is there now.
func TestGrantsOfSetsAndHistory(t *testing.T) {
	key, err := access.LoadOrCreateKey(filepath.Join(t.TempDir(), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	minter, err := access.NewMinter(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := filesystemv1.NewFilesystemServiceClient(serve(t, settings(t, workspace.BackendSQLite), access.Options{KeySet: minter.KeySet()}))
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
	apply := func(ctx context.Context, changes ...*filesystemv1.FileChange) error {
		_, err := files.ApplyChanges(ctx, &filesystemv1.ApplyChangesRequest{Changes: changes})
		return err
	}
	refused := func(err error, reason, change string) {
		t.Helper()
		typed, ok := errdefsOf(err)
		if !ok || typed.Reason != reason || change != "" && typed.Meta["change"] != change {
			t.Errorf("got %v of change %q, want %s of change %q", err, typed.Meta["change"], reason, change)
		}
	}
	all := with([]string{"fs.read", "fs.write", "definition.write", "memory.write", "template.write"}, nil)
	for range 2 {
		if err := apply(all, writing("AGENTS.md", 0), writing("secret/a", 0), writing("plans/a", 0)); err != nil {
			t.Fatal(err)
		}
	}

	run := with([]string{"fs.read", "fs.write"}, nil)
	refused(apply(run, writing("a", 0), writing("AGENTS.md", 0)), "READ_ONLY", "1")
	refused(apply(run, writing("a", 0), moving("a", "skills/x/SKILL.md")), "READ_ONLY", "1")
	refused(apply(run, moving("AGENTS.md", "a")), "READ_ONLY", "0")
	refused(apply(run, writing("a", 0), writing("b", 0), removing("subagents")), "READ_ONLY", "2")
	refused(apply(run, writing("memory/.provenance/x", 0)), "READ_ONLY", "0")
	refused(apply(run, writing("knowledge/a", inTemplate)), "READ_ONLY", "0")
	if _, err := files.Stat(run, &filesystemv1.StatRequest{Path: "a"}); errdefs.ReasonOf(err) != "PATH_NOT_FOUND" {
		t.Errorf("a refused set left a file: %v", err)
	}
	kept, err := files.ListRevisions(run, &filesystemv1.ListRevisionsRequest{Path: "AGENTS.md"})
	if err != nil || len(kept.GetRevisions()) != 2 {
		t.Fatal(kept, err)
	}
	_, err = files.RestoreRevision(run, &filesystemv1.RestoreRevisionRequest{Path: "AGENTS.md", Revision: kept.GetRevisions()[1].GetRevision()})
	refused(err, "READ_ONLY", "")

	plan := with([]string{"fs.read", "fs.write"}, []string{"plans"})
	refused(apply(plan, writing("plans/b", 0), writing("secret/b", 0)), "PATH_NOT_ALLOWED", "1")
	refused(apply(plan, moving("secret/a", "plans/s")), "PATH_NOT_ALLOWED", "0")
	refused(apply(plan, moving("plans/a", "secret/p")), "PATH_NOT_ALLOWED", "0")
	if err := apply(plan, writing("plans/b", 0), moving("plans/a", "plans/c"), removing("plans/c")); err != nil {
		t.Errorf("a set inside the prefixes: %v", err)
	}
	secret, err := files.ListRevisions(all, &filesystemv1.ListRevisionsRequest{Path: "secret/a"})
	if err != nil {
		t.Fatal(err)
	}
	old := secret.GetRevisions()[1].GetRevision()
	_, err = files.ListRevisions(plan, &filesystemv1.ListRevisionsRequest{Path: "secret/a"})
	refused(err, "PATH_NOT_ALLOWED", "")
	_, err = files.DiffRevisions(plan, &filesystemv1.DiffRevisionsRequest{Path: "secret/a"})
	refused(err, "PATH_NOT_ALLOWED", "")
	_, err = files.Read(plan, &filesystemv1.ReadRequest{Path: "secret/a", Revision: old})
	refused(err, "PATH_NOT_ALLOWED", "")
	_, err = files.RestoreRevision(plan, &filesystemv1.RestoreRevisionRequest{Path: "secret/a", Revision: old})
	refused(err, "PATH_NOT_ALLOWED", "")
	_, err = files.RestoreRevision(with([]string{"fs.read"}, nil), &filesystemv1.RestoreRevisionRequest{Path: "secret/a", Revision: old})
	if errdefs.ClassOf(err) != errdefs.ErrPermissionDenied {
		t.Errorf("a restore without fs.write: %v", err)
	}
}

func errdefsOf(err error) (*errdefs.Error, bool) {
	typed, ok := errors.AsType[*errdefs.Error](err)
	if !ok {
		typed = &errdefs.Error{}
	}
	return typed, ok
}

// Lower layers are written where they are stored, and named; the directory of an engineer is not written.
func TestLowerLayersAreWritten(t *testing.T) {
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite} {
		cfg := settings(t, backend)
		put(t, cfg.Workspace, "AGENTS.md", "rules two")
		conn := serve(t, cfg, access.Options{})
		files, workspaces := filesystemv1.NewFilesystemServiceClient(conn), workspacev1.NewWorkspaceServiceClient(conn)
		calls := func(ctx context.Context, layer filesystemv1.Layer) map[string]error {
			out := map[string]error{}
			_, out["Write"] = files.Write(ctx, &filesystemv1.WriteRequest{Path: "knowledge/n.md", Layer: layer, Content: []byte("new")})
			_, out["Edit"] = files.Edit(ctx, &filesystemv1.EditRequest{Path: "AGENTS.md", Layer: layer, Replacements: []*filesystemv1.Replacement{{OldText: "two", NewText: "three"}}})
			_, out["Delete"] = files.Delete(ctx, &filesystemv1.DeleteRequest{Path: "knowledge/k.md", Layer: layer})
			_, out["ApplyChanges"] = files.ApplyChanges(ctx, &filesystemv1.ApplyChangesRequest{Changes: []*filesystemv1.FileChange{writing("knowledge/set.md", layer)}})
			return out
		}
		for method, err := range calls(as(t, identity.Identity{User: "ana"}), inTemplate) {
			if errdefs.ReasonOf(err) != "READ_ONLY" || errdefs.ClassOf(err) != errdefs.ErrPermissionDenied {
				t.Errorf("%s: %s to a directory: %v", backend, method, err)
			}
		}
		if _, err := workspaces.PutAgentTemplate(as(t, identity.Identity{}), &workspacev1.PutAgentTemplateRequest{Agent: "stored", Files: []*workspacev1.TemplateFile{
			{Path: "AGENTS.md", Content: []byte("rules two")}, {Path: "knowledge/k.md", Content: []byte("k")},
			{Path: "ana/AGENTS.md", Content: []byte("rules two of ana")}, {Path: "ana/knowledge/k.md", Content: []byte("k of ana")},
		}}); err != nil {
			t.Fatal(err)
		}
		ana, ben := as(t, identity.Identity{Agent: "stored", User: "ana"}), as(t, identity.Identity{Agent: "stored", User: "ben"})
		for _, layer := range []filesystemv1.Layer{inUser, inTemplate} {
			for method, err := range calls(ana, layer) {
				if err != nil {
					t.Errorf("%s: %s to %v: %v", backend, method, layer, err)
				}
			}
		}
		_, err := files.ApplyChanges(ana, &filesystemv1.ApplyChangesRequest{Changes: []*filesystemv1.FileChange{writing("knowledge/k.md", inTemplate), writing("a", 0)}})
		if typed, _ := errdefsOf(err); typed == nil || typed.Reason != "CAPABILITY_MISSING" || typed.Meta["change"] != "1" {
			t.Errorf("%s: a set across layers: %v", backend, err)
		}
		for _, c := range []struct {
			ctx   context.Context
			want  string
			layer filesystemv1.Layer
		}{{ana, "rules three of ana", inUser}, {ben, "rules three", inTemplate}} {
			got, err := files.Read(c.ctx, &filesystemv1.ReadRequest{Path: "AGENTS.md"})
			if err != nil || got.GetText() != c.want || got.GetInfo().GetLayer() != c.layer {
				t.Errorf("%s: read %q from %v, want %q from %v, %v", backend, got.GetText(), got.GetInfo().GetLayer(), c.want, c.layer, err)
			}
			if _, err := files.Stat(c.ctx, &filesystemv1.StatRequest{Path: "knowledge/k.md"}); errdefs.ReasonOf(err) != "PATH_NOT_FOUND" {
				t.Errorf("%s: what was deleted from its layer: %v", backend, err)
			}
			history, err := files.ListRevisions(c.ctx, &filesystemv1.ListRevisionsRequest{Path: "AGENTS.md"})
			if err != nil || len(history.GetRevisions()) != 1 || history.GetRevisions()[0].GetLayer() != c.layer {
				t.Errorf("%s: the history of a lower layer's file: %v, %v", backend, history, err)
			}
		}
	}
}
