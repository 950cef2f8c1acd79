package journalsqlite

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// watchOthers notices commits of other processes while somebody waits: SQLite's data version, as the writing connection sees it, changes with
// those and with nothing else.
func (d *database) watchOthers() {
	tick := time.NewTicker(journal.Recheck)
	defer tick.Stop()
	var last int64
	for {
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		if d.notify.Idle() {
			continue
		}
		var version int64
		err := d.Write(context.Background(), func(t *journalsql.Tx) error {
			_, err := t.Get("PRAGMA data_version", nil, &version)
			return err
		})
		// An error is no reason to be still: the waiters look themselves and report it.
		if err != nil || version != last {
			d.notify.All()
		}
		last = version
	}
}
