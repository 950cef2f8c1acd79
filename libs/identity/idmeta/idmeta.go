// Package idmeta reads and writes [identity.Identity] as gRPC metadata. It alone knows the names of the keys.
//
// Values are percent-encoded UTF-8: letters, digits and -._~ may stand for themselves, and so may any other printable
// ASCII character but "%" when it is read; everything else is "%" and two hex digits for each byte.
package idmeta

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// The metadata keys. HTTP headers of the gateway have the same names.
const (
	KeyAgent         = "gantry-agent"
	KeyUser          = "gantry-user"
	KeySession       = "gantry-session"
	KeyScope         = "gantry-scope"
	KeyRequestID     = "gantry-request-id"
	KeyEffect        = "gantry-effect"
	KeySandbox       = "gantry-sandbox"
	KeyAuthorization = "authorization"
)

const (
	// MaxBytes bounds keys and values of all Gantry metadata of one request, the credential included.
	MaxBytes = 6 << 10
	prefix   = "gantry-"
)

// Keys returns every key that carries a part of the identity. The slice is the caller's.
func Keys() []string {
	return []string{KeyAgent, KeyUser, KeySession, KeyScope, KeyRequestID, KeyEffect, KeySandbox}
}

// FromIncoming reads the identity of an incoming call. A missing agent becomes the default one; the tenant is left
// empty, for it comes from the credential alone. A key that is given twice, a value that breaks the rules and metadata
// of more than [MaxBytes] are IDENTITY_MALFORMED.
func FromIncoming(ctx context.Context) (identity.Identity, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return Parse(md)
}

// Parse is [FromIncoming] for metadata at hand.
func Parse(md metadata.MD) (identity.Identity, error) {
	if size := sizeOf(md); size > MaxBytes {
		return identity.Identity{}, malformed("metadata", "has %d bytes of Gantry keys, at most %d are allowed", size, MaxBytes)
	}
	var id identity.Identity
	fields := []struct {
		key  string
		into *string
	}{
		{KeyAgent, &id.Agent}, {KeyUser, &id.User}, {KeySession, &id.Session},
		{KeyRequestID, &id.RequestID}, {KeyEffect, &id.Effect}, {KeySandbox, &id.Sandbox},
	}
	for _, f := range fields {
		value, ok, err := single(md, f.key)
		if err != nil {
			return identity.Identity{}, err
		}
		if !ok {
			continue
		}
		if err := identity.ValidateID(f.key, value); err != nil {
			return identity.Identity{}, err
		}
		*f.into = value
	}
	scope, ok, err := single(md, KeyScope)
	if err != nil {
		return identity.Identity{}, err
	}
	if id.Scope, err = identity.ParseScope(scope); err != nil {
		return identity.Identity{}, err
	}
	id.ScopeUnset = !ok
	if id.Agent == "" {
		id.Agent = identity.DefaultAgent
	}
	return id, nil
}

// NewOutgoing returns ctx with the identity as outgoing metadata, in place of any identity that was there. Other keys
// are kept. The tenant is not written. An identity that breaks the rules is IDENTITY_MALFORMED.
func NewOutgoing(ctx context.Context, id identity.Identity) (context.Context, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	for _, key := range Keys() {
		md.Delete(key)
	}
	fields := []struct{ key, value string }{
		{KeyAgent, id.Agent}, {KeyUser, id.User}, {KeySession, id.Session},
		{KeyRequestID, id.RequestID}, {KeyEffect, id.Effect}, {KeySandbox, id.Sandbox},
	}
	for _, f := range fields {
		if f.value != "" {
			md.Set(f.key, Encode(f.value))
		}
	}
	if !id.ScopeUnset || id.Scope != identity.ScopeUser {
		md.Set(KeyScope, id.Scope.String())
	}
	if size := sizeOf(md); size > MaxBytes {
		return nil, malformed("metadata", "has %d bytes of Gantry keys, at most %d are allowed", size, MaxBytes)
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// single returns the decoded value of a key that may be given once.
func single(md metadata.MD, key string) (value string, ok bool, err error) {
	switch values := md.Get(key); len(values) {
	case 0:
		return "", false, nil
	case 1:
		value, err = Decode(values[0])
		if err != nil {
			return "", false, malformed(key, "is not percent-encoded")
		}
		if value == "" {
			return "", false, malformed(key, "is empty; leave the key out instead")
		}
		return value, true, nil
	default:
		return "", false, malformed(key, "is given %d times", len(values))
	}
}

// sizeOf counts the bytes of the keys and values that count as Gantry's.
func sizeOf(md metadata.MD) int {
	size := 0
	for key, values := range md {
		if key != KeyAuthorization && !strings.HasPrefix(key, prefix) {
			continue
		}
		for _, value := range values {
			size += len(key) + len(value)
		}
	}
	return size
}

func malformed(field, format string, args ...any) error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, identity.ReasonMalformed,
		field+" "+format, args...).With("field", field)
}
