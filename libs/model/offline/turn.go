package offline

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/model"
)

// turn is what the conversation says about the work at hand.
type turn struct {
	instructions []string
	results      []model.ToolResult
	seed         string
}

// readTurn finds the instructions that are not answered yet and the results of the calls made for them.
//
// A turn begins after the last answer that called no tools. A word of the user in the middle of it adds an instruction,
// unless the work before it was interrupted: then it begins anew.
func readTurn(messages []model.Message) turn {
	var t turn
	ordinals := map[string]int{}
	h := fnv.New32a()
	for _, m := range messages {
		switch m.Role {
		case model.RoleUser:
			if !isInstruction(m) {
				continue
			}
			if interrupted(t.results) {
				t = turn{}
			}
			t.instructions = append(t.instructions, m.Text())
			h.Write([]byte(m.Text()))
			if len(t.instructions) == 1 {
				t.seed = fmt.Sprintf("%08x", h.Sum32())
			}
		case model.RoleAssistant:
			calls := m.ToolCalls()
			if len(calls) == 0 {
				t = turn{}
				continue
			}
			for i, c := range calls {
				ordinals[c.ID] = ordinal(c.ID, len(t.results)+i)
			}
		case model.RoleTool:
			for _, b := range m.Blocks {
				t.results = place(t.results, ordinals[b.ToolResult.CallID], *b.ToolResult)
			}
		}
	}
	return t
}

var ownID = regexp.MustCompile(`^offline_[0-9a-f]{8}_(\d{1,4})$`)

// ordinal is the place of a call in its turn. It is in the id, so that it is right even when a compaction has dropped
// earlier calls; without one of our ids, calls are counted.
func ordinal(id string, counted int) int {
	m := ownID.FindStringSubmatch(id)
	if m == nil {
		return counted
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return counted
	}
	return n
}

func place(results []model.ToolResult, at int, r model.ToolResult) []model.ToolResult {
	for len(results) <= at {
		results = append(results, model.ToolResult{Content: "(this result is no longer in the conversation)"})
	}
	results[at] = r
	return results
}

func interrupted(results []model.ToolResult) bool {
	if len(results) == 0 {
		return false
	}
	last := results[len(results)-1]
	return last.IsError && strings.Contains(strings.ToLower(last.Content), "interrupted")
}

var synthetic = regexp.MustCompile(`^\s*(?:<([A-Za-z][\w-]*)[\s>]|\[?#{0,3} ?[A-Z_]*(?:HARNESS_CONTEXT|RUNTIME_STATE))`)

// isInstruction says whether a user message was written by the user. Its origin says so; a message that lost its origin on
// the way is known by the tag that encloses it.
func isInstruction(m model.Message) bool {
	switch m.Origin {
	case model.OriginSteer:
		return true
	case "":
		text := strings.TrimSpace(m.Text())
		g := synthetic.FindStringSubmatch(text)
		return g == nil || g[1] != "" && !strings.HasSuffix(text, "</"+g[1]+">")
	}
	return false
}

var (
	blockRE = map[string]*regexp.Regexp{
		"agents": regexp.MustCompile(`(?s)<available_subagents>(.*?)</available_subagents>`),
		"skills": regexp.MustCompile(`(?s)<available_skills>(.*?)</available_skills>`),
	}
	nameRE = regexp.MustCompile("(?m)^\\s*[-*]\\s+[*`\"]*([\\p{L}\\p{N}_.-]+)|(?:id|name)=\"([^\"]+)\"|<(?:id|name)>\\s*([^<]+?)\\s*</|(?m:^\\s*(?:id|name):\\s*[\"'`]?([\\p{L}\\p{N}_.-]+))")
)

// readNames lists what exists: tools, the values that schemas allow for agents, and the lists in the system text.
func readNames(req model.Request) names {
	n := names{agents: map[string]string{}, tools: map[string]string{}, skills: map[string]string{}}
	for _, t := range req.Tools {
		n.tools[fold(t.Name)] = t.Name
	}
	if t, ok := readTools(req.Tools).find(spawnTool...); ok {
		if name, ok := t.property([]string{"agent_id", "agent", "name"}); ok {
			for _, e := range t.props[name].Enum {
				if s, ok := e.(string); ok {
					n.agents[fold(s)] = s
				}
			}
		}
	}
	for kind, into := range map[string]map[string]string{"agents": n.agents, "skills": n.skills} {
		for _, block := range blockRE[kind].FindAllStringSubmatch(req.System, -1) {
			for _, m := range nameRE.FindAllStringSubmatch(block[1], -1) {
				if name := m[1] + m[2] + m[3] + m[4]; name != "" {
					into[fold(name)] = name
				}
			}
		}
	}
	return n
}
