// Command bench measures what the orchestrator adds to the work of models and tools: the prompt of a long thread, the opening of one, watchers, and durable steps against the bare
// database driver, by turns and in the same run.
//
// It prints a line a figure while it goes on, and a JSON object in the last line. docs/benchmarks.md says what each figure is.
//
//	go run ./services/orchestrator/internal/cmd/bench [-only PATTERN] [-json] [-scale 1]
package main

import (
	"flag"

	"github.com/gantry-agents/gantry/libs/measure"
)

var bin = flag.String("bin", "bin/workspace", "the program of the workspace service, which keeps the journal")

func main() {
	measure.Main("bench-runs", []measure.Part{
		{Name: "compile", Run: compile},
		{Name: "open", Run: open},
		{Name: "watchers", Run: watchers},
		{Name: "steps-postgres", Run: stepsPostgres},
	})
}
