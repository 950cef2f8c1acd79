package disktree

import (
	"context"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func reason(err error) string { return errdefs.ReasonOf(err) }

// nothing is an empty space.
type nothing struct{}

func (nothing) Get(_ context.Context, paths ...fsops.Path) ([]files.Node, error) {
	return make([]files.Node, len(paths)), nil
}
func (nothing) Children(context.Context, fsops.Path, string, int) (files.Page, error) {
	return files.Page{}, nil
}
func (nothing) Below(context.Context, fsops.Path, string, int) (files.Page, error) {
	return files.Page{}, nil
}
func (nothing) Open(context.Context, files.Node) (files.Content, error) { return nil, files.ErrChanged }
func (nothing) Load(_ context.Context, nodes ...files.Node) ([][]byte, error) {
	return make([][]byte, len(nodes)), nil
}
func (nothing) Whiteouts(context.Context) ([]string, error) { return nil, nil }
func (nothing) Revisions(context.Context, fsops.Path, string, int) ([]files.Node, bool, error) {
	return nil, false, nil
}
func (nothing) Revision(context.Context, fsops.Path, string) (files.Node, error) {
	return files.Node{}, nil
}
