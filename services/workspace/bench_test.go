package workspace_test

import (
	"testing"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace"
)

var backends = []string{workspace.BackendLocal, workspace.BackendSQLite}

// BenchmarkDefinition measures GetDefinition with a small agent, in memory behind the whole chain.
func BenchmarkDefinition(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend, func(b *testing.B) {
			cfg := settings(b, backend)
			put(b, cfg.Workspace, "AGENTS.md", "rules", "MEMORY.md", "memory", "knowledge/KNOWLEDGE.md", "main", "knowledge/a.md", "a",
				"skills/one/SKILL.md", "---\ndescription: one\n---\nbody", "skills/two/SKILL.md", "---\ndescription: two\n---\nbody",
				"subagents/x.md", "---\ndescription: x\n---\nbody", "subagents/y.md", "---\ndescription: y\n---\nbody", "tools.json", "{}")
			workspaces := workspacev1.NewWorkspaceServiceClient(serve(b, cfg, access.Options{}))
			ctx := identity.NewContext(b.Context(), identity.Identity{User: "ana"})
			for b.Loop() {
				if _, err := workspaces.GetDefinition(ctx, &workspacev1.GetDefinitionRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// histories are the policies that writes are measured with: what history costs is the difference.
var histories = map[string]int{"no history": 0, "history": 20}

// BenchmarkWrite measures one small file after another.
func BenchmarkWrite(b *testing.B) {
	each(b, func(b *testing.B, files filesystemv1.FilesystemServiceClient) {
		ctx := identity.NewContext(b.Context(), identity.Identity{User: "ana"})
		content := make([]byte, 2048)
		for b.Loop() {
			if _, err := files.Write(ctx, &filesystemv1.WriteRequest{Path: "d/f", Content: content}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAppend measures one line after another at the end of a ledger of 4 MiB.
func BenchmarkAppend(b *testing.B) {
	each(b, func(b *testing.B, files filesystemv1.FilesystemServiceClient) {
		ctx := identity.NewContext(b.Context(), identity.Identity{User: "ana"})
		if _, err := files.Write(ctx, &filesystemv1.WriteRequest{Path: "log", Content: make([]byte, 4<<20)}); err != nil {
			b.Fatal(err)
		}
		line := []byte("one line of a ledger, with what happened and when\n")
		for b.Loop() {
			if _, err := files.Append(ctx, &filesystemv1.AppendRequest{Path: "log", Content: line}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// each measures on each backend with each policy.
func each(b *testing.B, f func(*testing.B, filesystemv1.FilesystemServiceClient)) {
	for _, backend := range append(backends, workspace.BackendPostgres) {
		for name, count := range histories {
			b.Run(backend+"/"+name, func(b *testing.B) {
				cfg := settings(b, backend)
				cfg.HistoryCount = count
				f(b, filesystemv1.NewFilesystemServiceClient(serve(b, cfg, access.Options{})))
			})
		}
	}
}

// BenchmarkRead measures one small file after another.
func BenchmarkRead(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend, func(b *testing.B) {
			files := filesystemv1.NewFilesystemServiceClient(serve(b, settings(b, backend), access.Options{}))
			ctx := identity.NewContext(b.Context(), identity.Identity{User: "ana"})
			if _, err := files.Write(ctx, &filesystemv1.WriteRequest{Path: "d/f", Content: make([]byte, 2048)}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := files.Read(ctx, &filesystemv1.ReadRequest{Path: "d/f"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
