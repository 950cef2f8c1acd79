// Package policy decides which calls a run may make. It judges names and arguments; what a call then touches is enforced
// again by the service that acts, through the verbs and path prefixes of the run's capability.
//
// The order is fixed: deny rules, ask rules, the mode, what the tool itself asks for, allow rules, and at last the
// default of the mode. Deny always wins, in mode bypass too.
package policy

import (
	"slices"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Verdict is what a policy says of a call.
type Verdict uint8

// The verdicts.
const (
	Allow Verdict = iota
	Ask
	Deny
)

func (v Verdict) String() string { return [...]string{"allow", "ask", "deny"}[v] }

// Decision is a verdict and where it comes from: a rule as written, or "mode NAME", or "tool".
type Decision struct {
	Verdict Verdict
	Rule    string
}

// Mode is the posture of a run.
type Mode string

// The modes.
const (
	ModeDefault     Mode = "default"      // what no rule names is allowed inside the agent's own data and asked for outside
	ModeAcceptEdits Mode = "accept_edits" // like default; edits of files never ask
	ModeExplore     Mode = "explore"      // read-only calls only
	ModeBypass      Mode = "bypass"       // nothing asks, but deny rules and tools that insist
	ModeDontAsk     Mode = "dont_ask"     // what would ask is denied
)

// Modes lists the modes.
func Modes() []Mode {
	return []Mode{ModeDefault, ModeAcceptEdits, ModeExplore, ModeBypass, ModeDontAsk}
}

// ParseMode reads a mode; empty is the default one.
func ParseMode(s string) (Mode, bool) {
	if s == "" {
		return ModeDefault, true
	}
	m := Mode(s)
	return m, slices.Contains(Modes(), m)
}

// Policy is what holds for one run. The zero value is mode default without rules.
type Policy struct {
	Mode  Mode
	Rules []Rule
	// Planning is set while the run is in plan mode: only read-only calls, and those named here, go through.
	Planning bool
}

// planTools are allowed in plan mode although they change something: the plan and the run's own bookkeeping.
var planTools = []string{"plan_enter", "plan_write", "plan_exit", "todo_write", "ask_user", "agent_spawn", "agent_send", "agent_list", "task_output", "task_list", "task_wait"}

// Decide judges one call.
func (p Policy) Decide(spec tool.Spec, call tool.Call) Decision {
	subject := subjectOf(spec, call)
	if r, ok := p.match(Deny, spec, subject); ok {
		return Decision{Deny, r}
	}
	if p.Planning && !spec.ReadOnly && !slices.Contains(planTools, spec.Name) {
		return Decision{Deny, "plan mode"}
	}
	if d := p.undenied(spec, subject); d.Verdict != Ask || p.Mode != ModeDontAsk {
		return d
	}
	return Decision{Deny, "mode dont_ask"}
}

func (p Policy) undenied(spec tool.Spec, subject string) Decision {
	ask, asked := p.match(Ask, spec, subject)
	switch {
	case spec.Ask:
		return Decision{Ask, "tool"}
	case asked && p.Mode != ModeBypass:
		return Decision{Ask, ask}
	case spec.ReadOnly:
		return Decision{Allow, "read-only"}
	case p.Mode == ModeExplore:
		return Decision{Deny, "mode explore"}
	case p.Mode == ModeBypass:
		return Decision{Allow, "mode bypass"}
	case p.Mode == ModeAcceptEdits && spec.EffectKind == tool.EffectFiles:
		return Decision{Allow, "mode accept_edits"}
	}
	if r, ok := p.match(Allow, spec, subject); ok {
		return Decision{Allow, r}
	}
	if spec.EffectKind.Outside() && spec.EffectKind != tool.EffectClient {
		return Decision{Ask, "mode default"}
	}
	return Decision{Allow, "mode default"}
}

func (p Policy) match(v Verdict, spec tool.Spec, subject string) (string, bool) {
	for _, r := range p.Rules {
		if r.Verdict == v && r.Matches(spec, subject) {
			return r.String(), true
		}
	}
	return "", false
}

// Ceiling gives the policy of a child: every deny and ask rule of the parent binds it too, and its mode is the stricter
// of the two.
func (p Policy) Ceiling(child Policy) Policy {
	out := Policy{Mode: stricter(p.Mode, child.Mode), Planning: p.Planning || child.Planning}
	for _, r := range p.Rules {
		if r.Verdict != Allow {
			out.Rules = append(out.Rules, r)
		}
	}
	out.Rules = append(out.Rules, child.Rules...)
	return out
}

// strictness orders the modes; the child takes the stricter one.
var strictness = map[Mode]int{ModeBypass: 0, ModeAcceptEdits: 1, "": 2, ModeDefault: 2, ModeDontAsk: 3, ModeExplore: 4}

func stricter(a, b Mode) Mode {
	if strictness[a] >= strictness[b] {
		return a
	}
	return b
}
