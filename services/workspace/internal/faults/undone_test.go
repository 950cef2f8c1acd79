package faults

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// TestUndoneUpdateTakesNothingOfOthers has an update stage content and fail. What the store gives out next may have the same name inside of it; discarding the
// first must not remove that.
func TestUndoneUpdateTakesNothingOfOthers(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		undo := errors.New("undo")
		large := bytes.Repeat([]byte("a"), 600_000)
		var left files.Staged
		_, err := store.Update(t.Context(), ana, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
			staged, err := store.Stage(ctx, bytes.NewReader(large), 0)
			if err != nil {
				return nil, err
			}
			left = staged
			if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf("f"), Content: staged, Mode: 0o644}); err != nil {
				return nil, err
			}
			return nil, undo
		})
		if !errors.Is(err, undo) {
			t.Fatalf("got %v", err)
		}
		theirs := bytes.Repeat([]byte("b"), 600_000)
		mustWrite(t, store, ben, "theirs", theirs)
		left.Discard()
		mustHold(t, store, ben, "theirs", theirs)
	})
}

// TestFailedSetLeavesOthersWhole is the same through a set of changes, as callers make one.
func TestFailedSetLeavesOthersWhole(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		theirs := bytes.Repeat([]byte("b"), 600_000)
		for i := range 5 {
			_, err := viewOf(store, ana).Apply(t.Context(), call, []files.FileChange{
				{Write: &files.Write{Path: fsops.PathOf("large")}, Content: bytes.Repeat([]byte("a"), 600_000)},
				{Delete: &files.Delete{Path: fsops.PathOf("nothing")}},
			})
			if err == nil {
				t.Fatal("the set was applied")
			}
			name := string(rune('a' + i))
			mustWrite(t, store, ben, name, theirs)
		}
		for i := range 5 {
			mustHold(t, store, ben, string(rune('a'+i)), theirs)
		}
		if _, err := viewOf(store, ana).Stat(t.Context(), fsops.PathOf("large")); err == nil {
			t.Error("half of the set is there")
		}
	})
}

// TestContextThatEndsWhileStaging ends the context between the pieces of content that an update stages: the update fails at once, and the next one works.
func TestContextThatEndsWhileStaging(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := store.Update(ctx, ana, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
			_, err := store.Stage(ctx, &cancelling{cancel: cancel}, 0)
			return nil, err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		mustWrite(t, store, ana, "f", []byte("x"))
	})
}

// cancelling gives content without end and ends the context after the first megabyte.
type cancelling struct {
	cancel context.CancelFunc
	given  int
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.given += len(p); c.given > 1<<20 {
		c.cancel()
	}
	return len(p), nil
}
