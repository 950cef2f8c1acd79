package main

import (
	"runtime"
	"strings"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/prompt"
)

const (
	// compileEvents are 1,024 in 128 whole steps, after the start and the input.
	compileEvents = 2 + 128*8
	compileRounds = 200
)

// compile measures the making of a request from a thread of 1,024 events, none of them compacted, with material of usual size.
func compile(b *measure.B) {
	thread, _ := steps(b, compileEvents, nothing)
	in := prompt.Input{
		Definition: &definition.Definition{
			Agent: "coder", Spec: &orchestratorv1.AgentSpec{},
			Instructions: definition.Text{Path: "AGENTS.md", Text: strings.Repeat("Be brief. ", 200)},
			Memory:       definition.Text{Path: "MEMORY.md", Text: strings.Repeat("- likes tea\n", 300)},
			Knowledge:    definition.Text{Path: "knowledge/KNOWLEDGE.md", Text: strings.Repeat("The build is make. ", 100)},
		},
		Conversation: thread.Messages(), Model: "scripted:x", Window: 1_000_000,
	}
	var times []time.Duration
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range compileRounds {
		times = append(times, measure.Timed(func() {
			_, _, err := prompt.Compile(in)
			b.Must(err)
		}))
	}
	runtime.ReadMemStats(&after)
	took, allocated := measure.Milliseconds(measure.Median(times)), float64(after.TotalAlloc-before.TotalAlloc)/compileRounds/1e6
	b.Say("compile: %d events, %d messages: %.2f ms, %.2f MB allocated", compileEvents, len(in.Conversation), took, allocated)
	b.Report.AtMost("compile_ms", took, 2)
	b.Report.AtMost("compile_allocated_mb", measure.Round2(allocated), 1)
}
