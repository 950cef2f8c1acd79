package redis

import (
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// tagged escapes what would end a hash tag, so that all keys of a space are in one slot and no two spaces have a key in common.
var tagged = strings.NewReplacer("%", "%25", "{", "%7b", "}", "%7d")

// key is a key of a space. The empty name has a tag too: an empty tag is none.
func (d *driver) key(space files.Space, what string) string {
	return d.prefix + ":{" + tagged.Replace(string(space)) + "%}:" + what
}

func (d *driver) head(space files.Space) string   { return d.key(space, "head") }
func (d *driver) log(space files.Space) string    { return d.key(space, "log") }
func (d *driver) marks(space files.Space) string  { return d.key(space, "marks") }
func (d *driver) states(space files.Space) string { return d.key(space, "states") }
func (d *driver) chunks(space files.Space) string { return d.key(space, "chunks") }

func (d *driver) chunk(space files.Space, name string) string { return d.key(space, "c:"+name) }

func (d *driver) staged(name string) string { return d.prefix + ":staged:" + name }
func (d *driver) spaces() string            { return d.prefix + ":spaces" }

// headOf is a position as the head of a log holds it; "" before the first entry.
func headOf(at manifest.Position) string {
	if at.Number == 0 {
		return ""
	}
	return strconv.FormatInt(at.Number, 10) + " " + strconv.FormatUint(at.Nonce, 16)
}

// entryID is the id of an entry in the stream.
func entryID(number int64) string { return strconv.FormatInt(number, 10) + "-0" }

func numberOf(id string) int64 {
	number, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
