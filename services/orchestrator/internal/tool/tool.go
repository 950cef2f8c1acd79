// Package tool is the port through which a run acts: what a tool says about itself, how it is called, what comes back.
//
// A tool never panics upwards and never returns an error: whatever goes wrong is a [Result] that the model can read and
// the loop can count. What a tool may do is declared in its [Spec], so that policy and scheduling need no knowledge of it.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// EffectKind says what a call changes outside the run.
type EffectKind string

// The kinds of effects. Calls of kind network and client are outside of Gantry: when their answer is lost, whether they
// happened is not known.
const (
	EffectNone    EffectKind = "none"
	EffectFiles   EffectKind = "files"
	EffectExec    EffectKind = "exec"
	EffectMemory  EffectKind = "memory"
	EffectTask    EffectKind = "task"
	EffectNetwork EffectKind = "network"
	EffectClient  EffectKind = "client"
)

// Outside says whether a lost answer leaves the outcome unknown, since no service of ours records it.
func (k EffectKind) Outside() bool { return k == EffectNetwork || k == EffectClient }

// Bounds on what a tool may say and give.
const (
	DefaultTimeout = 5 * time.Minute
	MaxResultBytes = 8 << 20 // of Text; a tool that could give more cuts and says so
)

// Spec is what a tool says about itself.
type Spec struct {
	Name        string          // 1 to 64 of A-Z a-z 0-9 _ -
	Description string          // for the model
	Schema      json.RawMessage // JSON schema of the arguments, an object
	EffectKind  EffectKind
	// ReadOnly calls change nothing that anyone could see; plan mode and the mode explore allow them.
	ReadOnly bool
	// ConcurrencySafe calls may run beside others of the same step; all others are barriers.
	ConcurrencySafe bool
	// Timeout bounds one call; 0 = DefaultTimeout.
	Timeout time.Duration
	// Ask demands a person's approval whatever the mode says, bypass included.
	Ask bool
	// Subject names the argument that policy rules with a pattern are matched against: "path", "command", "url". Empty: none.
	Subject string
}

// Call is one call of a tool. The context carries the identity with its effect id and the capability of the run.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage // checked against the schema by the tool itself
}

// Result is the outcome of a call.
type Result struct {
	Status threadv1.ToolStatus
	// Text is for the model.
	Text string
	// Reason is machine-readable, of results that are not OK.
	Reason string
	// Data is for programs; small.
	Data map[string]any
	// FullTextPath is set when Text was evicted to a file.
	FullTextPath string
	// Media are images and files beside the text. Each holds at most 64 KiB.
	Media []*threadv1.Media
	// Events are journaled together with the result.
	Events []*threadv1.EventPayload
	// Unanswered says that a service of ours gave no answer: whether the call took place is not known, and the same call under the same effect id finds out.
	Unanswered bool
	// Suspend makes the run wait for an answer, which becomes the result.
	Suspend *threadv1.Interaction
}

// Tool is something that a model can call. Implementations are safe for concurrent use.
type Tool interface {
	Spec() Spec
	Run(ctx context.Context, call Call) Result
}

// The causes of the end of a call's context when the call itself is to end. A context that ends for another cause (the
// process stops, the thread has another owner) ends the waiting only: whoever goes on with the run takes the call up again.
var (
	ErrStopped  = errors.New("the run is stopping")
	ErrTimedOut = errors.New("the time of the call was up")
)

// MustEnd says whether what the call started elsewhere must be ended too.
func MustEnd(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ErrStopped) || errors.Is(cause, ErrTimedOut)
}

// OK makes a result that worked.
func OK(text string) Result { return Result{Status: threadv1.ToolStatus_TOOL_STATUS_OK, Text: text} }

// Failed makes a result that did not work, with a reason for programs and a text that tells the model what to do.
func Failed(reason, text string) Result {
	return Result{Status: threadv1.ToolStatus_TOOL_STATUS_ERROR, Reason: reason, Text: text}
}

// Unknown makes a result of which it is not known whether the call took place.
func Unknown(text string) Result {
	return Result{Status: threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, Reason: "OUTCOME_UNKNOWN", Text: text}
}

// IsOK says whether the call worked.
func (r Result) IsOK() bool { return r.Status == threadv1.ToolStatus_TOOL_STATUS_OK }

// With adds a value for programs.
func (r Result) With(key string, value any) Result {
	data := make(map[string]any, len(r.Data)+1)
	for k, v := range r.Data {
		data[k] = v
	}
	data[key] = value
	r.Data = data
	return r
}
