package postgres

import (
	"encoding/base64"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/pgnotify"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// channel on which processes with files in the same database tell of their changes.
const channel = "gantry_files"

// maxWord bounds what is told in one word. A space with a longer name is found by those who look.
const maxWord = 7000

var _ sqlstore.Notifier = (*db)(nil)

// Hear implements [sqlstore.Notifier].
func (d *db) Hear(changed func(files.Space), missed func()) time.Duration {
	d.told = pgnotify.Open(d.pool, channel, func(words []string) {
		for _, word := range words {
			if name, err := base64.RawURLEncoding.DecodeString(word); err == nil {
				changed(files.Space(name))
			}
		}
	}, missed, d.log)
	return d.poll
}

// Tell implements [sqlstore.Notifier].
func (d *db) Tell(space files.Space) {
	if word := base64.RawURLEncoding.EncodeToString([]byte(space)); len(word) <= maxWord {
		d.told.Tell(word)
	}
}
