package files

import (
	"context"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Versioned is a [Tree] that can tell at little cost whether something has changed. Optional.
type Versioned interface {
	Tree
	// Version differs from all earlier ones when anything at or below one of the paths has changed since, whiteouts included, also by people and other processes. It may differ when
	// something else has. No two trees have the same. "": the tree can't tell.
	Version(ctx context.Context, paths ...fsops.Path) (string, error)
}

// Version is that of all trees of the view; "" when one of them can't tell.
func (v *View) Version(ctx context.Context, paths ...fsops.Path) (string, error) {
	var all strings.Builder
	for l := range 1 + len(v.lower) {
		layer := v.layerOf(l)
		tree, ok := v.treeOf(layer).(Versioned)
		if !ok {
			return "", nil
		}
		version, err := tree.Version(ctx, paths...)
		if err != nil || version == "" {
			return "", err
		}
		all.WriteString(strconv.Itoa(int(layer)) + ":" + version + " ")
	}
	return all.String(), nil
}
