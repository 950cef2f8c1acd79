// Command bench measures the workspace service against what its work costs at least: ripgrep, the bare database driver, itself on small data. A baseline is measured in
// turns with what is compared to it, in the same run, since machines differ and other work disturbs both.
//
// It prints a line a figure while it goes on, and a JSON object in the last line. docs/benchmarks.md says what each figure is.
//
//	go run ./services/workspace/internal/cmd/bench [-only PATTERN] [-json] [-scale 1]
package main

import (
	"context"
	"flag"
	"path/filepath"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/measure"
)

var bin = flag.String("bin", "bin/workspace", "the program of the workspace service")

func main() {
	all := make([]measure.Part, len(parts))
	for i, p := range parts {
		all[i] = measure.Part{Name: p.name, Run: func(m *measure.B) { p.run(newBench(m)) }}
	}
	measure.Main("bench-workspace", all)
}

// part is some figures that are measured together.
type part struct {
	name string
	run  func(b *bench)
}

// parts are all there are, in the order of the milestone's list.
var parts = []part{
	{"grep-local", grepLocal},
	{"grep-sqlite", func(b *bench) { grepShared(b, "sqlite", sqliteSettings) }},
	{"grep-postgres", func(b *bench) { grepShared(b, "postgres", postgresSettings) }},
	{"grep-redis", func(b *bench) { grepShared(b, "redis", redisSettings) }},
	{"files-postgres", filesPostgres},
	{"journal-sqlite", func(b *bench) { journalGrowth(b, "sqlite", openJournalSQLite(b)) }},
	{"journal-postgres", journalPostgres},
	{"definition", definition},
	{"upload", upload},
}

// bench is one part under way.
type bench struct {
	*measure.B
	ctx    context.Context
	report *figures.Report
	bin    string
}

func newBench(m *measure.B) *bench {
	path, err := filepath.Abs(*bin)
	m.Must(err)
	return &bench{B: m, ctx: m.Ctx, report: m.Report, bin: path}
}

func (b *bench) size(n int) int                 { return b.Size(n) }
func (b *bench) say(format string, args ...any) { b.Say(format, args...) }
func (b *bench) must(err error)                 { b.Helper(); b.Must(err) }
