package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName bounds the name of a tool, as models do.
const maxName = 64

// toolName is the name that a server's tool has in a run: mcp__SERVER__TOOL. Characters that models do not take become underlines; a name that is too long
// ends in a hash of the whole.
func toolName(server, tool string) string {
	name := "mcp__" + server + "__" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, tool)
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	return name[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
}
