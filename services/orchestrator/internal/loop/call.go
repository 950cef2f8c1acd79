package loop

import (
	"crypto/sha256"
	"encoding/hex"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// Call is one tool call of the current step, as far as its events tell it.
type Call struct {
	Call    *threadv1.ToolCall
	Ordinal int32
	// RequestSeq is the sequence of the request that led to the call; the effect id is made from it.
	RequestSeq int64
	// Decision is "allow", "deny", "ask" or empty; Rule is what decided.
	Decision, Rule string
	// Arguments are those that count: edited by a person, or the model's.
	Arguments string
	// Dispatched is the dispatch that has no result. Nil: not dispatched.
	Dispatched *threadv1.ToolDispatched
	// Dispatches counts dispatches, so that a retry asked for by a person gets an effect id of its own.
	Dispatches int
	// Interaction is the last one of the call, Resolution its answer.
	Interaction *threadv1.Interaction
	Resolution  *threadv1.InteractionResolved
	Result      *threadv1.ToolResult
}

// The kinds of interactions.
const (
	KindApproval   = "approval"
	KindQuestion   = "question"
	KindClientTool = "client_tool"
	KindUnknown    = "outcome_unknown"
)

// The resolutions of interactions.
const (
	Approved  = "approved"
	Denied    = "denied"
	AnsweredR = "answered"
	Expired   = "expired"
	Cancelled = "cancelled"
	Retry     = "retry"
	Skip      = "skip"
	Fail      = "fail"
)

// ActorSetting is who resolves an interaction that the setting unknown_outcome answers.
const ActorSetting = "setting unknown_outcome"

// The decisions of policy.
const (
	Allow = "allow"
	Deny  = "deny"
	Ask   = "ask"
)

// Waiting says that the call has an interaction without an answer.
func (c *Call) Waiting() bool { return c.Interaction != nil && c.Resolution == nil }

// stage is where a call stands.
type stage uint8

const (
	stageUndecided stage = iota // policy has not spoken
	stageReady                  // may be dispatched
	stageFlying                 // dispatched, no result
	stageWaiting                // somebody must answer
	stageClosing                // its result follows from what is journaled: denied, answered, expired, skipped
	stageFailing                // a person said that the run must fail
	stageDone
)

func (c *Call) stage() stage {
	switch {
	case c.Result != nil:
		return stageDone
	case c.Waiting():
		return stageWaiting
	case c.Resolution != nil:
		return c.resolved()
	case c.Dispatched != nil:
		return stageFlying
	case c.Decision == Allow:
		return stageReady
	case c.Decision == "":
		return stageUndecided
	default: // denied; an ask always comes with its interaction in the same batch
		return stageClosing
	}
}

func (c *Call) resolved() stage {
	switch c.Resolution.GetResolution() {
	case Approved, Retry:
		if c.Dispatched != nil {
			return stageFlying
		}
		return stageReady
	case Fail:
		return stageFailing
	default:
		return stageClosing
	}
}

// Flying says that the call was dispatched and has no result.
func (c *Call) Flying() bool { return c.stage() == stageFlying }

// failure counts how often a call failed with the same outcome, step after step.
type failure struct {
	outcome string
	count   int
	step    int
}

// RepeatLimit is how often the same call may fail in the same way before the run is stopped.
const RepeatLimit = 3

// repeat notes the result of a call and says whether it failed for the last time.
func (r *Run) repeat(c *Call) bool {
	key := digest(c.Call.GetName(), c.Arguments)
	if c.Result.GetStatus() == threadv1.ToolStatus_TOOL_STATUS_OK || c.Result.GetStatus() == threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED {
		delete(r.failures, key)
		return false
	}
	outcome := digest(c.Result.GetStatus().String(), c.Result.GetReason(), c.Result.GetText())
	f := r.failures[key]
	switch {
	case f.outcome != outcome:
		f = failure{outcome: outcome, count: 1, step: r.Step}
	case f.step != r.Step: // twins within one step are one attempt
		f.count++
		f.step = r.Step
	}
	if r.failures == nil {
		r.failures = map[string]failure{}
	}
	r.failures[key] = f
	r.forgetFailures()
	return f.count >= RepeatLimit
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}
