package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// Agents makes a folder of agents: the reviewer of the examples, and helper, who asks before it removes anything.
func Agents(tb testing.TB) string {
	tb.Helper()
	_, file, _, _ := runtime.Caller(0)
	dir := tb.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "reviewer"), os.DirFS(filepath.Join(filepath.Dir(file), "..", "..", "..", "examples", "reviewer"))); err != nil {
		tb.Fatal(err)
	}
	for name, text := range map[string]string{
		"AGENTS.md":              "You help, and you say what you did.\n",
		"agent.yaml":             "description: Helps with anything.\nfilesystem_mode: FILESYSTEM_MODE_SANDBOX\npolicy_rules:\n  - ask execute(rm *)\n",
		"knowledge/KNOWLEDGE.md": "The warehouse opens at seven.\n",
		"subagents/clerk.md":     "---\ndescription: Writes things down.\n---\nYou write things down.\n",
	} {
		path := filepath.Join(dir, "helper", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// putAgents stores the reviewer and the helper as agents of a tenant that has no directories.
func putAgents(t *testing.T, g Target, tenant string) {
	t.Helper()
	dir := Agents(t)
	specs := map[string]*orchestratorv1.AgentSpec{
		"reviewer": {Description: "Reviews changes.", MaxSteps: 40},
		"helper": {
			Description: "Helps with anything.", FilesystemMode: orchestratorv1.FilesystemMode_FILESYSTEM_MODE_SANDBOX, PolicyRules: []string{"ask execute(rm *)"},
		},
	}
	for agent, spec := range specs {
		root := os.DirFS(filepath.Join(dir, agent))
		spec.Files = map[string][]byte{}
		err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
			// The settings are those above, and what is for one user of the directory's tenant is nothing here.
			if err != nil || path == "agent.yaml" {
				return err
			}
			if path == "ana" {
				return fs.SkipDir
			}
			if entry.IsDir() {
				return nil
			}
			text, err := fs.ReadFile(root, path)
			if path == "AGENTS.md" {
				spec.Instructions = string(text)
				return err
			}
			spec.Files[path] = text
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.clients().agents.PutAgent(g.as(t, tenant, agent, "admin", ""), &orchestratorv1.PutAgentRequest{Id: agent, Spec: spec}); err != nil {
			t.Fatalf("put agent %s of %s: %v", agent, tenant, err)
		}
	}
}
