package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// forgetful loses the answer of the next update that it makes, as a connection does that is cut at the commit.
type forgetful struct {
	*sqlite.DB
	lose bool
}

func (d *forgetful) Update(ctx context.Context, space files.Space, f func(context.Context, sqlstore.Querier) error) error {
	err := d.DB.Update(ctx, space, f)
	if d.lose && space != "" && err == nil {
		d.lose = false
		return errors.New("the connection was cut")
	}
	return err
}

// A change whose answer was lost has happened, and its content with it: who gives the content up afterwards must not take it away.
func TestContentOfAChangeWhoseAnswerWasLostStays(t *testing.T) {
	db, err := sqlite.OpenDB(t.Context(), filepath.Join(t.TempDir(), "files.db"), sqlite.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	lossy := &forgetful{DB: db}
	store := sqlstore.New(lossy, time.Now, files.History{})
	t.Cleanup(func() { store.Close() })
	view := files.NewView(store, "default/user/coder/ana", nil, files.Limits{}, time.Now)
	content := bytes.Repeat([]byte("much "), 1<<18) // more than waits in memory
	staged, err := store.Stage(t.Context(), bytes.NewReader(content), 0)
	if err != nil {
		t.Fatal(err)
	}
	lossy.lose = true
	if _, err := view.Write(t.Context(), files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf("a")}, staged); err == nil {
		t.Fatal("the answer was not lost")
	}
	if _, got, err := view.ReadAll(t.Context(), fsops.PathOf("a"), 64<<20); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the file has %d bytes, %v; want %d", len(got), err, len(content))
	}
	// Content that no change took is removed.
	left, err := store.Stage(t.Context(), bytes.NewReader(content), 0)
	if err != nil {
		t.Fatal(err)
	}
	left.Discard()
	rows := 0
	if err := db.Query(t.Context(), `SELECT count(*) FROM contents WHERE loose_since > 0`, func(row sqlstore.Row) error { return row.Scan(&rows) }); err != nil || rows != 0 {
		t.Errorf("%d contents are left behind, %v", rows, err)
	}
}
