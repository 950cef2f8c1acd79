package object

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// maxName is the length of an escaped name up to which it is part of keys; a longer one stands there shortened, with its hash. Providers take keys of 1,024 bytes.
	maxName = 800

	spacesPrefix = "spaces/"
	stagedPrefix = "staged/"
)

// escape makes a name of characters that every provider takes. Names of buckets and templates stay as they are, so the order of keys is that of the names. No
// escaped name holds "!", which ends a name in a key.
func escape(name string) string {
	var out strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '=', c == '+', c == '~':
			out.WriteByte(c)
		case c == '/' && i > 0 && name[i-1] != '/':
			out.WriteByte(c)
		case c == '.' && i > 0 && name[i-1] != '/' && name[i-1] != '.':
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02x", c)
		}
	}
	return out.String()
}

func sumOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// index is the key of the object that lists a space.
func index(space files.Space) string {
	name := escape(string(space))
	if len(name) > maxName {
		return spacesPrefix + name[:maxName] + "!!" + sumOf(string(space))
	}
	return spacesPrefix + name + "!"
}

// key is the key of an object of a space.
func key(space files.Space, kind string) string {
	name := escape(string(space)) + "!"
	if len(name) > maxName {
		name = sumOf(string(space)) + "!!"
	}
	return "data/" + name + "/" + kind + "/"
}

func logKey(space files.Space, number int64) string {
	return fmt.Sprintf("%s%016d", key(space, "log"), number)
}

func stateKey(space files.Space, number int64) string {
	return fmt.Sprintf("%s%016d", key(space, "state"), number)
}

func chunkKey(space files.Space, name string) string { return key(space, "chunk") + name }

// numberOf reads the number at the end of a key; 0 when there is none.
func numberOf(rest string) int64 {
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || len(rest) != 16 || n < 1 {
		return 0
	}
	return n
}
