package templates

import (
	"context"
	"fmt"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

var _ files.Versioned = subtree{}

// Version implements [files.Versioned] where the whole does.
func (s subtree) Version(ctx context.Context, paths ...fsops.Path) (string, error) {
	whole, ok := s.Tree.(files.Versioned)
	if !ok {
		return "", nil
	}
	outer := make([]fsops.Path, len(paths))
	for i, p := range paths {
		outer[i] = s.outer(p)
	}
	version, err := whole.Version(ctx, outer...)
	if err != nil || version == "" {
		return "", err
	}
	return fmt.Sprintf("%q %s", s.base.Key(), version), nil
}
