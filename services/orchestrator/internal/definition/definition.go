// Package definition is an agent as one call sees it: what the files of its workspace say, merged over the layers by the
// workspace service, read in one round trip and kept by revision.
package definition

import (
	"slices"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// Domain is the domain of the errors of this package.
const Domain = "gantry.orchestrator.v1"

// Definition is an agent as one call sees it. It is shared between calls and never changed.
type Definition struct {
	Agent string
	// Revision changes whenever any part does.
	Revision string
	// Spec holds the settings of agent.yaml and of a stored agent; never nil.
	Spec *orchestratorv1.AgentSpec

	Instructions   Text   // AGENTS.md
	Memory         Text   // MEMORY.md
	Knowledge      Text   // knowledge/KNOWLEDGE.md
	KnowledgeIndex []Text // paths of the other files below knowledge/, without their text
	Additional     []Text // the files that Spec.AdditionalContext names

	Skills    []Skill
	Subagents []Subagent
	Tools     ToolsConfig

	// Problems are files that are not used, or not fully. A fatal one refuses the call.
	Problems []*orchestratorv1.DefinitionProblem
}

// Text is a file with its text.
type Text struct {
	Path, Revision, Layer, Text string
}

// Skill is a skill that can be loaded.
type Skill struct {
	Name, Description, Path, Layer, Revision string
	Files                                    []string
}

// Subagent is a declared subagent.
type Subagent struct {
	ID, Description, Model, Prompt string
	Shared                         bool // works in the parent's bucket
	Steps                          int  // 0: the default
	Temperature, TopP              *float64
	Primary                        bool // not to be spawned
	Hidden                         bool // not listed, can be spawned
	Tools, Skills                  []string
	// Depth is how many levels of children the subagent may have itself; 0: none.
	Depth int
}

// GeneralPurpose is the subagent that every agent has.
const GeneralPurpose = "general-purpose"

// Subagent finds a subagent by its id; the built-in one exists unless a file declares another of that name.
func (d *Definition) Subagent(id string) (Subagent, bool) {
	for _, s := range d.Subagents {
		if s.ID == id {
			return s, true
		}
	}
	if id == GeneralPurpose {
		return Subagent{ID: id, Description: "Works on any self-contained task with the tools of its parent."}, true
	}
	return Subagent{}, false
}

// VisibleSubagents lists the subagents that the model is told of.
func (d *Definition) VisibleSubagents() []Subagent {
	var out []Subagent
	for _, s := range d.Subagents {
		if !s.Hidden && !s.Primary {
			out = append(out, s)
		}
	}
	if !slices.ContainsFunc(d.Subagents, func(s Subagent) bool { return s.ID == GeneralPurpose }) {
		general, _ := d.Subagent(GeneralPurpose)
		out = append(out, general)
	}
	return out
}

// Skill finds a skill by its name.
func (d *Definition) Skill(name string) (Skill, bool) {
	for _, s := range d.Skills {
		if s.Name == name {
			return s, true
		}
	}
	return Skill{}, false
}

// Fatal gives the problems that refuse a call.
func (d *Definition) Fatal() []*orchestratorv1.DefinitionProblem {
	var out []*orchestratorv1.DefinitionProblem
	for _, p := range d.Problems {
		if p.GetFatal() {
			out = append(out, p)
		}
	}
	return out
}

// ToolsConfig is tools.json as it holds after all layers: deny is their union, allow their intersection.
type ToolsConfig struct {
	// Restricted says that allow lists exist. Their intersection may be empty: then nothing is allowed.
	Restricted  bool
	Allow, Deny []string
	// Servers are the MCP servers of the template, by name.
	Servers []Server
}

// Removes says whether the config takes a tool away, and by which list.
func (c ToolsConfig) Removes(name string) (list string, removed bool) {
	if slices.ContainsFunc(c.Deny, func(entry string) bool { return Names(entry, name) }) {
		return "deny in tools.json", true
	}
	if c.Restricted && !slices.ContainsFunc(c.Allow, func(entry string) bool { return Names(entry, name) }) {
		return "allow in tools.json", true
	}
	return "", false
}

// Names says whether an entry of an allow or deny list means the tool. session_* stands for thread_*, and a bare name for
// the tool of an MCP server.
func Names(entry, name string) bool {
	if entry == name {
		return true
	}
	if rest, ok := strings.CutPrefix(entry, "session_"); ok && name == "thread_"+rest {
		return true
	}
	parts := strings.SplitN(name, "__", 3)
	return len(parts) == 3 && parts[0] == "mcp" && parts[2] == entry
}
