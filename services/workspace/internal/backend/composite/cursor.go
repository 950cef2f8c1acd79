package composite

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// cursorMark begins the generation of a cursor that holds those of several stores. No store's own begins with it.
	cursorMark = "~"
	// markBytes is how much of the hash of a name stands for a store in a cursor. New refuses names that have it in common.
	markBytes = 2
)

// markOf is what stands for a store in cursors.
func markOf(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:markBytes]
}

// cursors are the places in the logs of the stores, by index.
type cursors []files.Cursor

// join makes one cursor of those of the stores. Stores of which nothing was seen are left out: they begin at their start. With nothing but the default store's it is that
// store's own cursor, which holds also where the routes are gone.
func (s *Store) join(c cursors) files.Cursor {
	var out files.Cursor
	var body bytes.Buffer
	for _, i := range s.inOrder {
		one := c[i]
		if one.Seq == 0 {
			continue
		}
		out.Seq += one.Seq
		body.Write(markOf(s.names[i]))
		body.Write(binary.AppendUvarint(nil, uint64(len(one.Generation))))
		body.WriteString(one.Generation)
		body.Write(binary.AppendUvarint(nil, uint64(one.Seq)))
	}
	switch {
	case out.Seq == 0:
		return files.Cursor{}
	case out.Seq == c[0].Seq:
		return c[0]
	}
	out.Generation = cursorMark + base64.RawURLEncoding.EncodeToString(body.Bytes())
	return out
}

// split is the reverse of join. CURSOR_EXPIRED for a cursor that is none of these stores', one that holds a store that is no more among them.
func (s *Store) split(c files.Cursor) (cursors, error) {
	out := make(cursors, len(s.stores))
	text, joined := strings.CutPrefix(c.Generation, cursorMark)
	if !joined {
		out[0] = c
		return out, nil
	}
	body, err := base64.RawURLEncoding.DecodeString(text)
	for err == nil && len(body) > 0 {
		var i int
		var one files.Cursor
		if i, one, body = s.readCursor(body); i < 0 {
			return nil, expired(c)
		}
		out[i] = one
	}
	if err != nil || s.join(out) != c {
		return nil, expired(c)
	}
	return out, nil
}

// readCursor reads the cursor of one store; -1 when that is no store of these.
func (s *Store) readCursor(body []byte) (int, files.Cursor, []byte) {
	if len(body) < markBytes {
		return -1, files.Cursor{}, nil
	}
	mark := body[:markBytes]
	body = body[markBytes:]
	size, n := binary.Uvarint(body)
	if n <= 0 || size > uint64(len(body)-n) {
		return -1, files.Cursor{}, nil
	}
	generation := string(body[n : n+int(size)])
	body = body[n+int(size):]
	seq, n := binary.Uvarint(body)
	if n <= 0 || seq > 1<<62 {
		return -1, files.Cursor{}, nil
	}
	for i, name := range s.names {
		if bytes.Equal(markOf(name), mark) {
			return i, files.Cursor{Generation: generation, Seq: int64(seq)}, body[n:]
		}
	}
	return -1, files.Cursor{}, nil
}

func expired(c files.Cursor) error {
	return fsops.ErrCursorExpired(c.String(), files.Cursor{}.String())
}
