package fsops

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

const (
	// DefaultPageSize is how many entries a page holds when the request states no size.
	DefaultPageSize = 500
	// MaxPageSize bounds a page.
	MaxPageSize = 5000

	pageSumBytes = 8
)

// PageSize returns the size of a page for what a request states.
func PageSize(asked int32) int {
	if asked <= 0 {
		return DefaultPageSize
	}
	return min(int(asked), MaxPageSize)
}

// PageToken makes the token of the page that begins after the path with that key. It holds for requests with the same parts only. Pages are cut by
// key, not by count, so what is added or removed between two pages moves nothing across their border.
func PageToken(after string, request ...string) string {
	return base64.RawURLEncoding.EncodeToString(append(pageSum(after, request), after...))
}

// PageAfter reads a token for a request: the key after which the page begins, "" for the first page. TOKEN_INVALID for a token of another request.
func PageAfter(token string, request ...string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= pageSumBytes {
		return "", ErrTokenInvalid("page_token")
	}
	after := string(raw[pageSumBytes:])
	if !bytes.Equal(raw[:pageSumBytes], pageSum(after, request)) {
		return "", ErrTokenInvalid("page_token")
	}
	return after, nil
}

func pageSum(after string, request []string) []byte {
	h := sha256.New()
	for _, part := range append([]string{after}, request...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)[:pageSumBytes]
}
