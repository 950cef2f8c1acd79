// Package figures is the last line of commands that measure or count: one JSON object with named values, their goals, and
// whether they are met, so that a program need not read the lines above it.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
)

// Figure is one value.
type Figure struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	// Goal is what the value is held to, for example "<= 0". Empty: it is only told.
	Goal string `json:"goal"`
	OK   bool   `json:"ok"`
}

// Report is all figures of a command.
type Report struct {
	Command string   `json:"command"`
	Figures []Figure `json:"figures"`
}

// Tell adds a value without a goal.
func (r *Report) Tell(name string, value any) {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value, OK: true})
}

// AtMost adds a value that must not be above the goal.
func (r *Report) AtMost(name string, value, goal float64) {
	r.Figures = append(r.Figures, Figure{name, value, fmt.Sprintf("<= %g", goal), value <= goal})
}

// AtLeast adds a value that must not be below the goal.
func (r *Report) AtLeast(name string, value, goal float64) {
	r.Figures = append(r.Figures, Figure{name, value, fmt.Sprintf(">= %g", goal), value >= goal})
}

// OK says whether every goal is met.
func (r *Report) OK() bool {
	for _, f := range r.Figures {
		if !f.OK {
			return false
		}
	}
	return true
}

// Write prints the report as one line.
func (r *Report) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // goals read "<= 0"
	return enc.Encode(r)
}
