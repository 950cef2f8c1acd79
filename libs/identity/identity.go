// Package identity says on whose behalf work is done, and which data that selects.
//
// An [Identity] is what a call brings along. From it follow the [Bucket], the data that the isolation scope selects,
// and the [Thread], the conversation. Ids are data: any UTF-8 text of 1 to 256 bytes without control characters,
// compared byte by byte; nothing is normalised, so "Ü" in one code point and "Ü" in two are two ids. Keys and paths are
// made from ids by one injective encoding ([EncodeSegment]).
//
// The metadata of a call is read and written by package idmeta.
package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

const (
	// DefaultTenant is the tenant when authentication is off.
	DefaultTenant = "default"
	// DefaultAgent is the agent of a call that names none.
	DefaultAgent = "default"
	// MaxIDBytes bounds one id.
	MaxIDBytes = 256

	// ReasonMalformed is the reason of an id or scope that breaks the rules.
	ReasonMalformed = "IDENTITY_MALFORMED"
	// ReasonRequired is the reason when an id is missing where data would be kept.
	ReasonRequired = "IDENTITY_REQUIRED"
)

// Identity names on whose behalf a call is made. The zero value is valid: anonymous, without a session, scope user.
type Identity struct {
	// Tenant comes from the credential alone. The server chain always sets it.
	Tenant string `json:"tenant,omitempty"`
	// Agent is the agent's id. The server chain always sets it.
	Agent string `json:"agent,omitempty"`
	// User is the user's id. Empty: anonymous, which is a user of its own.
	User string `json:"user,omitempty"`
	// Session names the thread. Empty: none.
	Session string `json:"session,omitempty"`
	// Scope selects the data.
	Scope Scope `json:"scope"`
	// ScopeUnset says that the caller stated no scope: Scope is ScopeUser, and who knows the agent may put the agent's
	// default in its place. It is kept over hops until somebody decides and clears it. Only read where agents are
	// known; [Identity.Bucket] does not.
	ScopeUnset bool `json:"scope_unset,omitempty"`
	// RequestID is for logs; the server makes one when the caller gave none.
	RequestID string `json:"request_id,omitempty"`
	// Effect is the effect id of a mutating call (package effect). Empty: none.
	Effect string `json:"effect,omitempty"`
	// Sandbox is the handle of the sandbox whose files are meant. Empty: none.
	Sandbox string `json:"sandbox,omitempty"`
}

// Validate checks every id that is set: at most 256 bytes of valid UTF-8 without control characters. The reason is
// IDENTITY_MALFORMED.
func (id Identity) Validate() error {
	fields := [...]struct{ name, value string }{
		{"tenant", id.Tenant}, {"agent", id.Agent}, {"user", id.User}, {"session", id.Session},
		{"request_id", id.RequestID}, {"effect", id.Effect}, {"sandbox", id.Sandbox},
	}
	for _, f := range fields {
		if f.value == "" {
			continue
		}
		if err := ValidateID(f.name, f.value); err != nil {
			return err
		}
	}
	if int(id.Scope) >= len(scopeNames) {
		return malformed("scope", "has the value %d, which no scope has", id.Scope)
	}
	return nil
}

// ValidateID checks one id that must be set. The name of the field is for the message.
func ValidateID(field, id string) error {
	switch {
	case id == "":
		return malformed(field, "is empty")
	case len(id) > MaxIDBytes:
		return malformed(field, "has %d bytes, at most %d are allowed", len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return malformed(field, "is not valid UTF-8")
	case strings.ContainsFunc(id, unicode.IsControl):
		return malformed(field, "holds a control character")
	}
	return nil
}

// malformed makes the IDENTITY_MALFORMED error of one field.
func malformed(field, format string, args ...any) error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonMalformed,
		field+" "+format, args...).With("field", field)
}

// required makes the IDENTITY_REQUIRED error of one field.
func required(field, format string, args ...any) error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonRequired, format, args...).With("field", field)
}

// clip keeps foreign text short in messages.
func clip(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
