package offline

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/gantry-agents/gantry/libs/model"
)

// execution goes through the actions of a turn from the beginning, every time the model is asked. Calls whose results are
// in the conversation are passed over with these results; the first call without one stops it, and becomes the answer.
// So the conversation is the only state, the same conversation gives the same answer, and the calls of a turn are finite.
type execution struct {
	tools   toolset
	names   names
	context evidence
	results []model.ToolResult // of this turn, in the order of the calls
	taken   int
	pending []call
	stopped bool
	notes   []note

	last      string // what the last tool call gave, as plain text
	all       []string
	lastPath  string
	lastPaths []string
	lastTask  string
	// broken is set when the last call failed, so that nothing is made of its result.
	broken bool
	report bool
	stated string // the last statement of the user, which "this" may mean
}

type call struct {
	name string
	args json.RawMessage
}

// note is one thing that the final answer says.
type note struct {
	text   string
	quote  string
	failed bool
	answer bool // said directly to the user, not a line of the report
}

type outcome struct {
	text   string
	failed bool
}

// do makes the calls of one step, all at once; ok is false when their results are still to come.
func (x *execution) do(calls ...call) ([]outcome, bool) {
	if x.stopped || len(calls) == 0 {
		return nil, false
	}
	if x.taken+len(calls) > len(x.results) {
		x.pending, x.stopped = calls, true
		return nil, false
	}
	out := make([]outcome, len(calls))
	x.broken = false
	for i := range calls {
		r := x.results[x.taken]
		x.taken++
		out[i] = outcome{plain(r.Content), r.IsError}
		if r.IsError || badExit.MatchString(r.Content) {
			x.broken = true
		}
		if r.IsError {
			continue
		}
		x.last = out[i].text
		x.all = append(x.all, x.last)
	}
	return out, true
}

// one makes a single call of the first offered tool of the names. ok is false when it cannot be made, which is noted, or
// when its result is still to come.
func (x *execution) one(a action, what string, tools []string, args ...arg) (outcome, bool) {
	c, ok := x.prepare(a, what, tools, args...)
	if !ok {
		return outcome{}, false
	}
	out, ok := x.do(c)
	if !ok {
		return outcome{}, false
	}
	return out[0], true
}

// prepare binds the arguments of a call; what says what it is for.
func (x *execution) prepare(a action, what string, tools []string, args ...arg) (call, bool) {
	if x.stopped {
		return call{}, false
	}
	t, ok := x.tools.find(tools...)
	if !ok {
		x.fail("I cannot %s: no tool for it (%s) is offered here.", what, tools[0])
		return call{}, false
	}
	raw, lacks := t.bind(a.clause, args...)
	if lacks != "" {
		x.fail("I cannot %s: I do not know what to give %s as %q.", what, t.name, lacks)
		return call{}, false
	}
	return call{t.name, raw}, true
}

func (x *execution) offers(tools []string) bool {
	_, ok := x.tools.find(tools...)
	return ok
}

// The fields in which tools wrap what they have to say, the most telling first.
var textFields = []string{"content", "text", "output", "stdout", "reply", "result", "answer", "message", "summary"}

var (
	numbered   = regexp.MustCompile(`^\s*\d+(?:\t|→|\| ?)`)
	badExit    = regexp.MustCompile(`(?i)^exit code:? [1-9]|"exit_code"\s*:\s*[1-9]`)
	exitHeader = regexp.MustCompile(`^(?i:exit code:? -?\d+)(?:\s*\n\s*\n|\n|$)`)
	readNote   = regexp.MustCompile(`(?:^|\n)\[(?:end of file|more follows|the line goes on|some bytes|[^\n]* is empty\])[^\n]*$`)
)

// plain is the text of a tool result: unwrapped from JSON, without line numbers.
func plain(s string) string {
	var object map[string]any
	if json.Unmarshal([]byte(s), &object) == nil {
		for _, f := range textFields {
			if text, ok := object[f].(string); ok && text != "" {
				return text
			}
		}
		return s
	}
	s = readNote.ReplaceAllString(exitHeader.ReplaceAllString(s, ""), "")
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l == "" && i == len(lines)-1 {
			continue
		}
		if !numbered.MatchString(l) {
			return s
		}
	}
	for i, l := range lines {
		lines[i] = numbered.ReplaceAllString(l, "")
	}
	return strings.Join(lines, "\n")
}
