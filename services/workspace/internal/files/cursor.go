package files

import (
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Cursor is a place in the change log of a space. The zero cursor is before its first change.
type Cursor struct {
	// Generation of the space: a new one begins when a space is forgotten. "" with Seq 0 fits any.
	Generation string
	// Seq counts changes from 1.
	Seq int64
}

// String returns the cursor as callers hold it.
func (c Cursor) String() string {
	if c.Generation == "" {
		return "0"
	}
	return c.Generation + "." + strconv.FormatInt(c.Seq, 10)
}

// ParseCursor reads what [Cursor.String] writes. TOKEN_INVALID for anything else.
func ParseCursor(text string) (Cursor, error) {
	if text == "0" {
		return Cursor{}, nil
	}
	generation, number, ok := strings.Cut(text, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	c := Cursor{Generation: generation, Seq: seq}
	if !ok || err != nil || seq < 0 || generation == "" || c.String() != text {
		return Cursor{}, fsops.ErrTokenInvalid("cursor")
	}
	return c, nil
}
