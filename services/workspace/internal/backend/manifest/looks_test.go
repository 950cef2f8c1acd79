package manifest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// A search asks the store few times, however many directories there are: each question is a way to a server that may be far away.
func TestLooksOfSearch(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{})
	_, err := s.Update(t.Context(), space, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		for i := range 3000 {
			staged, err := s.Stage(ctx, strings.NewReader("needle"), 0)
			if err != nil {
				return nil, err
			}
			if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf(fmt.Sprintf("d%d/f%d", i/10, i)), Content: staged, Mode: 0o644}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	search, err := fsops.CompileGrep(fsops.GrepRequest{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	before := m.count("after")
	end, err := view(s).Grep(t.Context(), files.Grep{Search: search, MaxMatches: 10_000, MaxPerFile: 10, MaxTime: time.Minute}, func(files.Hit) error { return nil })
	if err != nil || end.Files != 3000 {
		t.Fatalf("%+v, %v", end, err)
	}
	if looks := m.count("after") - before; looks > 30 {
		t.Errorf("a search of 300 directories asks %d times", looks)
	}
}
