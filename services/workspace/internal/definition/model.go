package definition

import (
	"strings"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// The bounds of a definition.
const (
	maxText      = 1 << 20
	maxBody      = 256 << 10
	maxItemFile  = 1 << 20
	maxKnowledge = 2000
	maxSkills    = 500
	maxSkillFile = 500
	maxSubagents = 200
	// maxTotal bounds all of it but the three texts, so that the answer fits a message.
	maxTotal = 8 << 20
)

// The reasons of gantry.workspace.v1.ErrorReason that problems have.
const (
	ReasonFrontMatter  = "FRONT_MATTER_INVALID"
	ReasonDescription  = "DESCRIPTION_MISSING"
	ReasonNameDiffers  = "NAME_DIFFERS"
	ReasonTools        = "TOOLS_INVALID"
	ReasonAgentConfig  = "AGENT_CONFIG_INVALID"
	ReasonUnreadable   = "UNREADABLE"
	ReasonTooLarge     = "FILE_TOO_LARGE"
	ReasonTooMany      = "TOO_MANY_ITEMS"
	ReasonIgnoredThere = "IGNORED_IN_BUCKET"
)

// Definition is what an agent is.
type Definition struct {
	Rules, Memory    Text
	Knowledge        Text
	KnowledgeFiles   []files.Entry
	KnowledgeCut     bool
	Skills           []Skill
	Subagents        []Subagent
	Tools            []ToolsLayer
	AgentConfig      map[string]any
	AgentConfigEntry files.Entry
	Problems         []Problem
	Fingerprint      string
}

// Text is a text file. A zero entry: there is none.
type Text struct {
	Entry     files.Entry
	Text      string
	Truncated bool
}

// Skill is a directory with a SKILL.md.
type Skill struct {
	Name, Description string
	Entry             files.Entry
	FrontMatter       map[string]any
	Body              string
	Files             []string
}

// Subagent is a file below subagents/.
type Subagent struct {
	ID, Description string
	Entry           files.Entry
	FrontMatter     map[string]any
	Body            string
}

// ToolsLayer is the tools.json of one layer. A nil Config: it does not parse.
type ToolsLayer struct {
	Entry  files.Entry
	Config map[string]any
}

// Problem is a file that is not as it should be.
type Problem struct {
	Path         string
	Layer        files.Layer
	Reason       string
	Message      string
	Line, Column int
	LeftOut      bool
}

// fault is what is wrong with the content of a file.
type fault struct {
	reason, message string
	line, column    int
}

// decode gives the text of a file: without a byte-order mark, wrong bytes replaced.
func decode(data []byte) string {
	return strings.TrimPrefix(strings.ToValidUTF8(string(data), "\uFFFD"), "\uFEFF")
}

// cut bounds a text at a line border, or at a character where one line is too long.
func cut(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	if i := strings.LastIndexByte(text[:limit], '\n'); i >= 0 {
		return text[:i+1], true
	}
	return strings.ToValidUTF8(text[:limit], ""), true
}
