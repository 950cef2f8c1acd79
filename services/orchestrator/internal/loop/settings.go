package loop

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
)

// DefaultMaxSteps is how many steps a run makes when nobody says otherwise.
const DefaultMaxSteps = 50

// Settings bound a run. They are journaled with run/started, so that a take-over holds the run to the same bounds.
type Settings struct {
	// MaxSteps is the number of model requests with tools; then follows one last request without, which summarises.
	MaxSteps int `json:"max_steps"`
	// Tokens bounds input and output together. 0: no bound.
	Tokens int64 `json:"tokens,omitempty"`
	// CostMicros bounds the cost. 0: no bound.
	CostMicros int64 `json:"cost_micros,omitempty"`
	// WallTimeMillis bounds the time since the start, pauses for people included. 0: no bound.
	WallTimeMillis int64 `json:"wall_time_ms,omitempty"`
	// Children bounds the tasks that the run may create. 0: no bound.
	Children int `json:"children,omitempty"`
	// Structured says that the answer must be a JSON object.
	Structured bool `json:"structured,omitempty"`
	// UnknownOutcome is what follows when it is not known whether a call took place: one of the Unknown… values. Empty: UnknownAsk.
	UnknownOutcome string `json:"unknown_outcome,omitempty"`
	// Call is what the caller asked for beside the text, for the executor alone.
	Call json.RawMessage `json:"call,omitempty"`
}

// What follows when it is not known whether a call took place.
const (
	UnknownAsk   = "ask"   // a person says
	UnknownRetry = "retry" // it is made again under a new effect id
	UnknownSkip  = "skip"  // the model is told
	UnknownFail  = "fail"  // the run ends
)

// WallTime is the bound as a duration.
func (s Settings) WallTime() time.Duration { return time.Duration(s.WallTimeMillis) * time.Millisecond }

// Struct is the form in which settings are journaled.
func (s Settings) Struct() (*structpb.Struct, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("run settings: %w", err)
	}
	out := &structpb.Struct{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("run settings: %w", err)
	}
	return out, nil
}

// ParseSettings reads what [Settings.Struct] wrote. What is missing has its default.
func ParseSettings(from *structpb.Struct) (Settings, error) {
	var s Settings
	if from != nil {
		raw, err := from.MarshalJSON()
		if err != nil {
			return Settings{}, fmt.Errorf("run settings: %w", err)
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return Settings{}, fmt.Errorf("run settings: %w", err)
		}
	}
	if s.MaxSteps <= 0 {
		s.MaxSteps = DefaultMaxSteps
	}
	return s, nil
}
