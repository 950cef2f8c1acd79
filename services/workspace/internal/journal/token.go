package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
)

// Token makes the opaque cursor of a list: a position, bound to the list's name and user, so that it is of no use anywhere else.
func Token(list string, u User, position int64) string {
	raw := append(tokenMark(list, u), make([]byte, 8)...)
	binary.BigEndian.PutUint64(raw[len(raw)-8:], uint64(position))
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseToken undoes [Token]. The error is CURSOR_INVALID.
func ParseToken(list string, u User, token string) (int64, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 16 || !bytes.Equal(raw[:8], tokenMark(list, u)) {
		return 0, TokenInvalid()
	}
	position := int64(binary.BigEndian.Uint64(raw[8:]))
	if position < 0 {
		return 0, TokenInvalid()
	}
	return position, nil
}

func tokenMark(list string, u User) []byte {
	sum := HashOf([]byte(list + " " + u.Key()))
	return sum[:8:8]
}
