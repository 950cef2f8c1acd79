package files

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// History is the policy by which previous revisions of a file are kept. A revision goes when Count newer ones are kept, or when it was replaced longer than Age ago, whichever
// comes first.
type History struct {
	// Count of previous revisions of one file. 0: none is kept.
	Count int
	// Age since a revision was replaced. 0: no limit.
	Age time.Duration
	// MaxFileBytes is the size up to which a file's previous revisions are kept. 0: no limit.
	MaxFileBytes int64
}

// DefaultHistory is the policy when nothing else is said.
func DefaultHistory() History {
	return History{Count: 20, Age: 30 * 24 * time.Hour, MaxFileBytes: 16 << 20}
}

// Keeps says whether a revision of a file is to be kept when it is replaced.
func (h History) Keeps(n Node) bool {
	return h.Count > 0 && n.Kind == KindFile && (h.MaxFileBytes <= 0 || n.Size <= h.MaxFileBytes)
}

// Before is the time before which a replaced revision is too old; false when none is.
func (h History) Before(now time.Time) (time.Time, bool) { return now.Add(-h.Age), h.Age > 0 }

func (nothing) Revisions(context.Context, fsops.Path, string, int) ([]Node, bool, error) {
	return nil, false, nil
}
func (nothing) Revision(context.Context, fsops.Path, string) (Node, error) { return Node{}, nil }
