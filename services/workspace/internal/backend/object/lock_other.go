//go:build !unix

package object

import (
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// lockFile refuses directories: there is no lock that guards creation in them here.
func lockFile(string) func() (func(), error) {
	return func() (func(), error) {
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "file:// is not a place for buckets on this system: use the backend sqlite")
	}
}
