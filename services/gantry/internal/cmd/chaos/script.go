package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// script is what the model says. A turn is chosen by the user's last text and the number of answers so far.
const script = `models: [{name: script}]
turns:
  - {always: true, when: {user: "^files", step: 1}, delay: 100ms, text: "The first lines.", calls: [
      {name: append_file, arguments: {path: log.txt, content: "one"}},
      {name: append_file, arguments: {path: other/log.txt, content: "one"}},
      {name: memory_save, arguments: {content: "The warehouse opens at seven."}}]}
  - {always: true, when: {user: "^files", step: 2}, delay: 100ms, calls: [
      {name: append_file, arguments: {path: log.txt, content: "two"}},
      {name: list_files, arguments: {path: "."}},
      {name: move_file, arguments: {source: other/log.txt, destination: moved.txt}}]}
  - {always: true, when: {user: "^files", step: 3}, delay: 100ms, text: "All is written."}

  - {always: true, when: {user: "^shell", step: 1}, delay: 100ms, calls: [{name: execute, arguments: {command: "echo begun >> ran.txt; sleep 0.3; echo ended >> ran.txt"}}]}
  - {always: true, when: {user: "^shell", step: 2}, delay: 100ms, calls: [{name: append_file, arguments: {path: memory/after.md, content: "after"}}]}
  - {always: true, when: {user: "^shell", step: 3}, delay: 100ms, text: "It ran."}

  - {always: true, when: {user: "^spawn", step: 1}, delay: 100ms, calls: [{name: agent_spawn, arguments: {agent_id: clerk, task: "child: write a line", timeout_seconds: 60}}]}
  - {always: true, when: {user: "^spawn", step: 2}, delay: 100ms, calls: [{name: append_file, arguments: {path: log.txt, content: "parent"}}]}
  - {always: true, when: {user: "^spawn", step: 3}, delay: 100ms, text: "The child is done."}
  - {always: true, when: {user: "^child", step: 1}, delay: 100ms, calls: [{name: append_file, arguments: {path: child.txt, content: "child"}}]}
  - {always: true, when: {user: "^child", step: 2}, delay: 100ms, text: "I wrote it."}

  - {always: true, when: {user: "^ask", step: 1}, delay: 100ms, calls: [
      {name: append_file, arguments: {path: asked.txt, content: "asked"}},
      {name: append_file, arguments: {path: log.txt, content: "one"}}]}
  - {always: true, when: {user: "^ask", step: 2}, delay: 100ms, text: "Thank you."}

  - {always: true, when: {user: "^steer", step: 1}, delay: 500ms, calls: [{name: append_file, arguments: {path: log.txt, content: "one"}}]}
  - {always: true, when: {user: "^and also"}, delay: 100ms, text: "Also that."}
  - {always: true, when: {user: "^steer", step: 2}, delay: 100ms, text: "Without a word."}

  - {always: true, when: {user: "^queue first", step: 1}, delay: 200ms, calls: [{name: append_file, arguments: {path: log.txt, content: "first"}}]}
  - {always: true, when: {user: "^queue first", step: 2}, delay: 100ms, text: "The first is done."}
  - {always: true, when: {user: "^queue second", step: 3}, delay: 100ms, calls: [{name: append_file, arguments: {path: log.txt, content: "second"}}]}
  - {always: true, when: {user: "^queue second", step: 4}, delay: 100ms, text: "The second is done."}

  - {always: true, when: {user: "^book", step: 1}, delay: 100ms, calls: [
      {name: mcp__ledger__append, arguments: {account: till, amount: 5}},
      {name: append_file, arguments: {path: log.txt, content: "booked"}}]}
  - {always: true, when: {user: "^book", step: 2}, delay: 100ms, text: "It is in the book."}

  - {always: true, when: {user: "^cancel", step: 1}, delay: 100ms, calls: [{name: append_file, arguments: {path: log.txt, content: "one"}}]}
  - {always: true, when: {user: "^cancel"}, text: "I go on and on and never come to an end.", piece: 2, interval: 50ms, hang: true}
`

// The agents: a helper with its files in the workspace service alone, one with a sandbox, and one with a ledger outside, which is an MCP server.
const (
	agentPlain = "plain"
	agentShell = "shell"
	agentBooks = "books"
)

var agents = map[string]map[string]string{
	agentPlain: {
		"AGENTS.md":          "You do as you are told.\n",
		"agent.yaml":         "description: Writes lines.\nfilesystem_mode: FILESYSTEM_MODE_STORE\npolicy_rules:\n  - ask append_file(asked.txt)\n",
		"subagents/clerk.md": "---\ndescription: Writes a line.\nworkspace:\n  mode: shared\n---\nYou write a line.\n",
	},
	agentBooks: {
		"AGENTS.md":  "You do as you are told.\n",
		"agent.yaml": "description: Keeps books.\nfilesystem_mode: FILESYSTEM_MODE_STORE\n",
		"tools.json": `{"mcpServers": {"ledger": {"url": "LEDGER"}}}` + "\n",
	},
	agentShell: {
		"AGENTS.md":  "You do as you are told.\n",
		"agent.yaml": "description: Runs commands.\nfilesystem_mode: FILESYSTEM_MODE_SANDBOX\n",
	},
}

// prepare writes the script and the agents below a directory.
func prepare(dir, ledger string) (scriptFile, workspaces string, err error) {
	scriptFile, workspaces = filepath.Join(dir, "script.yaml"), filepath.Join(dir, "agents")
	if err := os.WriteFile(scriptFile, []byte(script), 0o600); err != nil {
		return "", "", err
	}
	for agent, files := range agents {
		for name, text := range files {
			text = strings.ReplaceAll(text, "LEDGER", ledger)
			path := filepath.Join(workspaces, agent, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				return "", "", err
			}
		}
	}
	return scriptFile, workspaces, nil
}
