package sqlstore

import (
	"context"
	"fmt"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

var _ files.Versioned = (*tree)(nil)

// Version implements [files.Versioned] by the counters of the space, which every change of it moves on.
func (t *tree) Version(ctx context.Context, _ ...fsops.Path) (string, error) {
	version := fmt.Sprintf("%q", string(t.space)) // of a space that is not there
	err := t.q.Query(ctx, `SELECT generation, seq, revisions, files, bytes, whiteouts FROM spaces WHERE name = ?1`, func(row Row) error {
		var generation string
		var seq, revisions, count, bytes, whiteouts int64
		err := row.Scan(&generation, &seq, &revisions, &count, &bytes, &whiteouts)
		version = fmt.Sprint(generation, ".", seq, ".", revisions, ".", count, ".", bytes, ".", whiteouts)
		return err
	}, string(t.space))
	return version, err
}
