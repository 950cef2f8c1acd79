package policy

import (
	"encoding/json"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Domain is the domain of the errors of this package.
const Domain = "gantry.orchestrator.v1"

// Rule is one line of a policy: "deny execute(rm *)", "ask write_file(docs/**)", "allow web_fetch(example.org)".
// The tool is a name, in which "*" stands for anything ("mcp__ledger__*"); the pattern in brackets is matched against the subject of the call (path, command or URL)
// and may be left out.
type Rule struct {
	Verdict Verdict
	Tool    string
	Pattern string
}

// ParseRule reads a rule.
func ParseRule(s string) (Rule, error) {
	word, rest, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok {
		return Rule{}, badRule(s, `write it as "deny TOOL" or "deny TOOL(PATTERN)"`)
	}
	var r Rule
	switch word {
	case "allow":
		r.Verdict = Allow
	case "ask":
		r.Verdict = Ask
	case "deny":
		r.Verdict = Deny
	default:
		return Rule{}, badRule(s, "it begins with allow, ask or deny")
	}
	r.Tool = strings.TrimSpace(rest)
	if name, pattern, ok := strings.Cut(r.Tool, "("); ok {
		if !strings.HasSuffix(pattern, ")") || len(pattern) < 2 {
			return Rule{}, badRule(s, "the pattern stands in one pair of brackets")
		}
		r.Tool, r.Pattern = strings.TrimSpace(name), pattern[:len(pattern)-1]
	}
	if r.Tool == "" || strings.ContainsAny(r.Tool, " )\t\n") {
		return Rule{}, badRule(s, "it names one tool")
	}
	return r, nil
}

// ParseRules reads rules; the first bad one is the error.
func ParseRules(lines []string) ([]Rule, error) {
	rules := make([]Rule, 0, len(lines))
	for _, line := range lines {
		r, err := ParseRule(line)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func badRule(s, problem string) error {
	return errdefs.New(errdefs.ErrInvalidArgument, Domain, "SPEC_INVALID", "policy rule %q: %s", s, problem).With("rule", s)
}

func (r Rule) String() string {
	if r.Pattern == "" {
		return r.Verdict.String() + " " + r.Tool
	}
	return r.Verdict.String() + " " + r.Tool + "(" + r.Pattern + ")"
}

// Matches says whether the rule is about this call. A shell command is judged by its parts: deny and ask rules match
// when any part does, allow rules only when every part does. Parts are cut at anything that could begin another command,
// inside quotes too: cutting too much can only make a policy stricter.
func (r Rule) Matches(spec tool.Spec, subject string) bool {
	if !wildcard(r.Tool, spec.Name) {
		return false
	}
	if r.Pattern == "" {
		return true
	}
	switch spec.Subject {
	case "command":
		return r.matchesCommand(subject)
	case "url":
		return matchesURL(r.Pattern, subject)
	default:
		return matchesPath(r.Pattern, subject)
	}
}

var commandBorder = regexp.MustCompile("[;&|\n(){}`]|\\$\\(")

func (r Rule) matchesCommand(command string) bool {
	if r.Verdict != Allow && wildcard(r.Pattern, command) {
		return true
	}
	parts, matched := 0, 0
	for _, part := range commandBorder.Split(command, -1) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		parts++
		if wildcard(r.Pattern, part) {
			matched++
		}
	}
	if r.Verdict == Allow {
		return parts > 0 && matched == parts
	}
	return matched > 0
}

// matchesURL compares with the host, else with the whole address.
func matchesURL(pattern, address string) bool {
	if u, err := url.Parse(address); err == nil && wildcard(pattern, u.Hostname()) {
		return true
	}
	return wildcard(pattern, address)
}

// matchesPath compares as a glob below the root of the bucket.
func matchesPath(pattern, p string) bool {
	ok, err := doublestar.Match(strings.TrimPrefix(pattern, "/"), strings.TrimPrefix(path.Clean("/"+p), "/"))
	return err == nil && ok
}

// wildcard matches "*" against any characters, "/" included.
func wildcard(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

// subjectOf is the argument that patterns are matched against; empty when the tool names none or the call lacks it.
func subjectOf(spec tool.Spec, call tool.Call) string {
	if spec.Subject == "" {
		return ""
	}
	var args map[string]any
	if json.Unmarshal(call.Arguments, &args) != nil {
		return ""
	}
	s, _ := args[spec.Subject].(string)
	return s
}
