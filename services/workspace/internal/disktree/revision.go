package disktree

import (
	"crypto/sha256"
	"encoding/hex"
)

// OutsideRevision is the revision of a file that was written outside of the service: a hash of its signature, so that everyone gives it the same.
func OutsideRevision(signature string) string {
	sum := sha256.Sum256([]byte(signature))
	return "o" + hex.EncodeToString(sum[:8])
}
