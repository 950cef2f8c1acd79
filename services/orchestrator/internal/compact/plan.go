// Package compact decides when and where a conversation is cut, and turns what is cut off into a summary. It does no I/O but the model call that it is given.
//
// A cut never parts a tool call from its result. What a cut takes away is replaced by one summary message; earlier summaries go into it. When no summary can
// be made, nothing is cut.
package compact

import (
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Defaults of the settings.
const (
	DefaultMessages = 50
	DefaultReserve  = 20_000
	DefaultKeep     = 20
	// UnknownWindow is taken for a model that does not state its window.
	UnknownWindow = 64_000

	minKeepTokens = 2_000
	maxKeepTokens = 8_000
	// cooldown is how many messages must have come since the last cut before the next one that is not forced.
	cooldown = 6
)

// The triggers.
const (
	TriggerMessages  = "messages"
	TriggerTokens    = "tokens"
	TriggerOverflow  = "overflow"
	TriggerRequested = "requested"
)

// Limits are what a plan goes by. Zero fields have the defaults above.
type Limits struct {
	Window   int
	Messages int // negative: never by count
	Reserve  int
	Keep     int
	// Fixed are the tokens of a request beside the conversation: system text, tools, material.
	Fixed int
}

func (l Limits) defaults() Limits {
	if l.Window <= 0 {
		l.Window = UnknownWindow
	}
	if l.Messages == 0 {
		l.Messages = DefaultMessages
	}
	if l.Reserve <= 0 {
		l.Reserve = DefaultReserve
	}
	if l.Keep <= 0 {
		l.Keep = DefaultKeep
	}
	return l
}

// threshold is the size of a request from which it is compacted.
func (l Limits) threshold() int {
	if t := l.Window - l.Reserve; t > 0 {
		return t
	}
	return max(1, l.Window/2)
}

func (l Limits) keepTokens() int {
	return min(maxKeepTokens, max(minKeepTokens, l.threshold()/4))
}

// Due says whether the conversation must be compacted before the next request, and why. A conversation that was just cut is left alone: what is too large then
// is not the conversation.
func Due(entries []loop.Entry, l Limits) (trigger string, due bool) {
	l = l.defaults()
	if len(entries) > 0 && IsSummary(entries[0].Message) && len(entries) <= cooldown {
		return "", false
	}
	if l.Messages > 0 && len(entries) >= l.Messages {
		return TriggerMessages, true
	}
	if l.Fixed+Tokens(entries) >= l.threshold() {
		return TriggerTokens, true
	}
	return "", false
}

// Cut returns how many entries go into the summary; 0 when nothing can be gained.
func Cut(entries []loop.Entry, l Limits) int {
	l = l.defaults()
	budget, used, byTokens := l.keepTokens(), 0, len(entries)
	for byTokens > 0 {
		used += MessageTokens(entries[byTokens-1].Message)
		if used > budget && byTokens < len(entries) {
			break
		}
		byTokens--
	}
	cut := max(len(entries)-l.Keep, byTokens)
	if turn := lastTurn(entries); turn < cut && Tokens(entries[turn:]) <= budget {
		cut = turn
	}
	cut = wholePairs(entries, cut)
	if cut <= 0 || cut == 1 && IsSummary(entries[0].Message) {
		return 0
	}
	return cut
}

// lastTurn is where the last thing that the user said is.
func lastTurn(entries []loop.Entry) int {
	for i := len(entries) - 1; i >= 0; i-- {
		if m := entries[i].Message; m.GetRole() == threadv1.Role_ROLE_USER && m.GetOrigin() == "" {
			return i
		}
	}
	return len(entries)
}

// wholePairs moves a cut that would fall between calls and their results to before the calls, or, when nothing is before them, behind the results.
func wholePairs(entries []loop.Entry, cut int) int {
	back := cut
	for back > 0 && back < len(entries) && entries[back].Message.GetRole() == threadv1.Role_ROLE_TOOL {
		back--
	}
	if back > 0 {
		return back
	}
	for cut < len(entries) && entries[cut].Message.GetRole() == threadv1.Role_ROLE_TOOL {
		cut++
	}
	if cut >= len(entries) {
		return 0
	}
	return cut
}

// IsSummary says whether a message stands for earlier ones.
func IsSummary(m *threadv1.Message) bool { return m.GetOrigin() == loop.OriginSummary }

// Tokens estimates the size of a conversation.
func Tokens(entries []loop.Entry) int {
	n := 0
	for _, e := range entries {
		n += MessageTokens(e.Message)
	}
	return n
}

// overhead is what a message or block costs beside its text.
const overhead = 6

// MessageTokens estimates the size of one message.
func MessageTokens(m *threadv1.Message) int {
	n := overhead
	for _, b := range m.GetBlocks() {
		n += overhead + textTokens(b.GetText()) + textTokens(b.GetThinking().GetText()) + textTokens(b.GetToolCall().GetArgumentsJson()) + textTokens(b.GetToolResult().GetText())
		if b.GetMedia() != nil {
			n += 1_000
		}
	}
	return n
}

// textTokens counts four bytes of ASCII as a token, and any other character as one.
func textTokens(s string) int {
	ascii, other := 0, 0
	for _, r := range s {
		if r < 0x80 {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+3)/4 + other
}
