package local

import (
	"context"
	"fmt"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

var _ files.Versioned = (*tree)(nil)

// Version implements [files.Versioned] by what the disk has, since people may change it, and the whiteouts.
func (t *tree) Version(ctx context.Context, paths ...fsops.Path) (string, error) {
	version := fmt.Sprintf("%q", string(t.space)) // without a directory
	err := t.disk(func(d *disktree.Tree) (err error) {
		version, err = d.Version(ctx, paths...)
		return err
	})
	if err != nil || version == "" {
		return "", err
	}
	whites, err := t.Whiteouts(ctx)
	return fmt.Sprintf("%s %q", version, whites), err
}
