package postgres_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// BenchmarkSmall writes and reads files of 2 KB in turn, over older ones that are kept. The ratio to the bare driver is a figure of `make bench-workspace`.
func BenchmarkSmall(b *testing.B) {
	store, err := postgres.Open(b.Context(), postgres.Config{DSN: testkit.Postgres(b), History: files.DefaultHistory()}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	view := files.NewView(store, "default/user/coder/ana", nil, files.Limits{}, time.Now)
	content := bytes.Repeat([]byte("needle\n"), 2048/7)
	path := func(n int) fsops.Path { return fsops.PathOf(fmt.Sprintf("notes/file%02d.md", n%50)) }
	write := func(n int) {
		staged, err := store.Stage(b.Context(), bytes.NewReader(content), 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := view.Write(b.Context(), files.Call{Author: "ana"}, files.Write{Path: path(n)}, staged); err != nil {
			b.Fatal(err)
		}
	}
	for n := range 100 {
		write(n)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for n := range b.N {
			write(n)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for n := range b.N {
			if _, _, err := view.ReadAll(b.Context(), path(n), 4096); err != nil {
				b.Fatal(err)
			}
		}
	})
}
