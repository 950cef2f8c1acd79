package tool

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/gantry-agents/gantry/libs/effect"
)

// ChildSession is the session of the child that a call with that effect id spawns: a repeat finds the same thread, and nobody can guess or choose it.
func ChildSession(effectID string) string {
	sum := sha256.Sum256([]byte(effect.Derive(effectID, "child")))
	return "sub-" + hex.EncodeToString(sum[:16])
}
