// Package tools holds the built-in tools of a run, one file a family, and decides which of them a run has.
//
// Every tool acts through the client of the service that owns what it touches, under the identity, effect id and
// capability in the context of the call. No tool holds state of a run: what it must know comes with [Env], what it changes in
// the run goes back as events.
package tools

import (
	"slices"
	"time"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Env is what the tools of one run work with.
type Env struct {
	Files   fsv1.FilesystemServiceClient // the agent's files, wherever its mode puts them
	Memory  memoryv1.MemoryServiceClient
	Threads threadv1.ThreadServiceClient
	Tasks   taskv1.TaskServiceClient
	Sandbox sandboxv1.SandboxServiceClient // nil: the agent has no shell
	// SandboxSpec is what to make when the bucket has no sandbox yet; nil: the service's default.
	SandboxSpec *sandboxv1.SandboxSpec

	Definition *definition.Definition
	// Spec narrows for this call; may be nil.
	Spec *orchestratorv1.AgentSpec
	// Only is the allow-list of a subagent; empty: everything.
	Only        []string
	ClientTools []*orchestratorv1.ClientTool
	// MCP are the tools of the agent's MCP servers.
	MCP []tool.Tool

	Thread identity.Thread
	Scope  identity.Scope
	RunID  string
	TaskID string // of the task that the run works for
	Depth  int    // 0 for a client's run
	// MaxDepth is the depth down to which children may be spawned; a run at MaxDepth is a leaf.
	MaxDepth int

	// Delegate makes the data of a child's task.
	Delegate Delegate
	// State is what the run's own journal says now.
	State func() State
	Now   func() time.Time
}

// State is the part of a run's state that tools look at.
type State struct {
	Planning bool
	Todos    []*threadv1.TodoItem
	Children []Child
}

// Child is a task that this thread created.
type Child struct {
	TaskID, Agent, Label string
	Thread               identity.Thread
	Ended                bool
}

// Removed is a tool that a run does not have, and why.
type Removed struct {
	Spec tool.Spec
	By   string
}

// For gives the tools of a run, ordered by name, and those that were taken away.
func For(env Env) (have []tool.Tool, removed []Removed) {
	for _, t := range env.all() {
		spec := t.Spec()
		if by, gone := env.removes(spec.Name); gone {
			removed = append(removed, Removed{spec, by})
			continue
		}
		have = append(have, t)
	}
	byName := func(a, b string) int {
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	}
	slices.SortFunc(have, func(a, b tool.Tool) int { return byName(a.Spec().Name, b.Spec().Name) })
	slices.SortFunc(removed, func(a, b Removed) int { return byName(a.Spec.Name, b.Spec.Name) })
	return have, removed
}

// all gives every tool that the services at hand can serve.
func (env Env) all() []tool.Tool {
	all := slices.Concat(env.readTools(), env.writeTools(), env.planTools(), env.askTools(), env.skillTools(), env.clientTools(), env.MCP)
	if env.Memory != nil && !env.disabled("memory_tools") {
		all = append(all, env.memoryTools()...)
	}
	if env.Threads != nil && !env.disabled("memory_tools") {
		all = append(all, env.threadTools()...)
	}
	if env.Sandbox != nil {
		all = append(all, env.executeTool())
	}
	if env.Tasks != nil && !env.disabled("subagents") {
		all = append(all, env.taskTools()...)
		if env.Depth < env.MaxDepth {
			all = append(all, env.agentTools()...)
		}
	}
	return all
}

// removes applies every list that may take a tool away; each can only narrow.
func (env Env) removes(name string) (by string, gone bool) {
	if !env.disabled("tools_config") {
		if by, gone := env.Definition.Tools.Removes(name); gone {
			return by, true
		}
	}
	for _, spec := range []*orchestratorv1.AgentSpec{env.Definition.Spec, env.Spec} {
		if slices.ContainsFunc(spec.GetDenyTools(), func(e string) bool { return definition.Names(e, name) }) {
			return "deny_tools", true
		}
		if allow := spec.GetAllowTools(); len(allow) > 0 && !slices.ContainsFunc(allow, func(e string) bool { return definition.Names(e, name) }) {
			return "allow_tools", true
		}
	}
	if len(env.Only) > 0 && !slices.ContainsFunc(env.Only, func(e string) bool { return definition.Names(e, name) }) {
		return "tools of the subagent", true
	}
	return "", false
}

func (env Env) disabled(part string) bool {
	return slices.Contains(env.Definition.Spec.GetDisable(), part) || slices.Contains(env.Spec.GetDisable(), part)
}

// UnknownEntries lists entries of allow and deny lists that name none of the tools.
func UnknownEntries(env Env) []string {
	lists := [][]string{env.Definition.Tools.Allow, env.Definition.Tools.Deny, env.Definition.Spec.GetAllowTools(), env.Definition.Spec.GetDenyTools(), env.Spec.GetAllowTools(), env.Spec.GetDenyTools(), env.Only}
	var unknown []string
	for _, entry := range slices.Concat(lists...) {
		known := slices.ContainsFunc(env.all(), func(t tool.Tool) bool { return definition.Names(entry, t.Spec().Name) })
		if !known && !slices.Contains(unknown, entry) {
			unknown = append(unknown, entry)
		}
	}
	return unknown
}
