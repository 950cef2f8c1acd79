package rpc

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

const (
	defaultPage = 50
	maxPage     = 500
)

// page cuts a list. Tokens name the list that they continue, so that one of another list or filter is refused and not misread.
func page[T any](list []T, kind string, size int32, token string) (part []T, next string, err error) {
	at := 0
	if token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		name, number, ok := strings.Cut(string(raw), "\x00")
		if at, _ = strconv.Atoi(number); err != nil || !ok || name != kind || at < 0 || at > len(list) {
			return nil, "", errdefs.New(errdefs.ErrInvalidArgument, run.Domain, "SPEC_INVALID", "the page token is not one of this list").With("field", "page_token")
		}
	}
	n := int(size)
	if n <= 0 {
		n = defaultPage
	}
	end := min(at+min(n, maxPage), len(list))
	if end < len(list) {
		next = base64.RawURLEncoding.EncodeToString([]byte(kind + "\x00" + strconv.Itoa(end)))
	}
	return list[at:end], next, nil
}
