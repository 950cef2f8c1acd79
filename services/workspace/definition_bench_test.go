package workspace_test

import (
	"fmt"
	"testing"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
)

// BenchmarkDefinitionWarm measures GetDefinition with an agent of some size whose files have not changed: by the caller that has no definition yet, and by the one that has it.
func BenchmarkDefinitionWarm(b *testing.B) {
	for _, backend := range backends {
		cfg := settings(b, backend)
		put(b, cfg.Workspace, "AGENTS.md", "rules", "MEMORY.md", "memory", "knowledge/KNOWLEDGE.md", "main", "tools.json", "{}")
		for i := range 20 {
			put(b, cfg.Workspace, fmt.Sprintf("skills/skill%d/SKILL.md", i), "---\ndescription: one of many\n---\nbody", fmt.Sprintf("knowledge/%d.md", i), "a",
				fmt.Sprintf("subagents/helper%d.md", i), "---\ndescription: one of many\n---\nbody")
		}
		workspaces := workspacev1.NewWorkspaceServiceClient(serve(b, cfg, access.Options{}))
		ctx := identity.NewContext(b.Context(), identity.Identity{User: "ana"})
		known, err := workspaces.GetDefinition(ctx, &workspacev1.GetDefinitionRequest{})
		if err != nil {
			b.Fatal(err)
		}
		for name, from := range map[string]string{"whole": "", "unchanged": known.GetDefinition().GetFingerprint()} {
			b.Run(backend+"/"+name, func(b *testing.B) {
				for b.Loop() {
					out, err := workspaces.GetDefinition(ctx, &workspacev1.GetDefinitionRequest{IfChangedFrom: from})
					if err != nil || out.GetUnchanged() != (from != "") {
						b.Fatal(out, err)
					}
				}
			})
		}
	}
}
