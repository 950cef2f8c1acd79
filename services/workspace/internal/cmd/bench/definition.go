package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/workspace"
)

// definition measures GetDefinition of an agent of usual size, again and again, in one process: the cache is warm and proves each time that nothing has changed.
func definition(b *bench) {
	for _, backend := range []struct {
		name string
		set  settings
	}{{"local", func(_ *bench, cfg *workspace.Config) { cfg.Backend = workspace.BackendLocal }}, {"sqlite", sqliteSettings}} {
		var dir string
		conn := serve(b, func(b *bench, cfg *workspace.Config) {
			backend.set(b, cfg)
			dir = cfg.Workspace
			put := func(path, content string) {
				path = filepath.Join(dir, path)
				b.must(os.MkdirAll(filepath.Dir(path), 0o755))
				b.must(os.WriteFile(path, []byte(content), 0o644))
			}
			put("AGENTS.md", string(text(1, 8000)))
			put("MEMORY.md", string(text(2, 8000)))
			put("tools.json", `{"deny": ["execute"]}`)
			for i := range 10 {
				put(fmt.Sprintf("knowledge/k%d.md", i), string(text(i, 4000)))
				put(fmt.Sprintf("skills/skill%d/SKILL.md", i), fmt.Sprintf("---\ndescription: skill %d\n---\n%s", i, text(i, 2000)))
				put(fmt.Sprintf("subagents/sub%d.md", i), fmt.Sprintf("---\ndescription: subagent %d\n---\nbody", i))
			}
		})
		client := workspacev1.NewWorkspaceServiceClient(conn)
		ctx := identity.NewContext(b.ctx, identity.Identity{User: "ana"})
		var times []time.Duration
		for range 500 {
			times = append(times, measure.Timed(func() {
				_, err := client.GetDefinition(ctx, &workspacev1.GetDefinitionRequest{})
				b.must(err)
			}))
		}
		p50 := measure.Milliseconds(measure.Median(times[50:]))
		b.say("definition: %s, warm: p50 %.3f ms, p99 %.3f ms", backend.name, p50, measure.Milliseconds(measure.Quantile(times[50:], 0.99)))
		b.report.AtMost("definition_"+backend.name+"_warm_ms", p50, 1)
	}
}
