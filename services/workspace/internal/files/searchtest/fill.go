package searchtest

import (
	"bytes"
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Fill writes the first n made sources into a space, many in one update, and returns their bytes.
func Fill(ctx context.Context, store files.Store, space files.Space, n int) (int64, error) {
	const together = 200
	var batch []files.File
	var total int64
	flush := func() error {
		_, err := store.Update(ctx, space, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
			for _, f := range batch {
				if _, err := tx.Put(ctx, f); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		batch = batch[:0]
		return err
	}
	err := Sources(n, func(name string, content []byte) error {
		staged, err := store.Stage(ctx, bytes.NewReader(content), 0)
		if err != nil {
			return err
		}
		total += staged.Size()
		if batch = append(batch, files.File{Path: fsops.PathOf(name), Content: staged, Mode: 0o644, Author: "ana"}); len(batch) < together {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return total, err
}
