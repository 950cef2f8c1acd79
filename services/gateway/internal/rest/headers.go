package rest

import (
	"net/textproto"
	"slices"

	"github.com/gantry-agents/gantry/libs/identity/idmeta"
)

// incoming lets the identity through, under its own names, and nothing else: a header that means something to the services
// must be named here to reach them. The credential (Authorization) passes by the library's own rule.
func incoming(header string) (string, bool) {
	header = textproto.CanonicalMIMEHeaderKey(header)
	for _, key := range idmeta.Keys() {
		if header == textproto.CanonicalMIMEHeaderKey(key) {
			return key, true
		}
	}
	return "", false
}

// outgoing shows what the services answer about the identity: the request id and a session that was made.
func outgoing(key string) (string, bool) {
	if slices.Contains(idmeta.Keys(), key) {
		return textproto.CanonicalMIMEHeaderKey(key), true
	}
	return "", false
}
