package identity

import (
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Scope selects which data a call works on.
type Scope uint8

const (
	// ScopeUser is the data of one user with one agent. It is the default.
	ScopeUser Scope = iota
	// ScopeSession is the data of one session.
	ScopeSession
	// ScopeAgent is the data that all users of one agent share.
	ScopeAgent
	// ScopeGlobal is the data that all agents of one tenant share.
	ScopeGlobal
)

var scopeNames = [...]string{ScopeUser: "user", ScopeSession: "session", ScopeAgent: "agent", ScopeGlobal: "global"}

// String returns "user", "session", "agent" or "global".
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return "invalid"
}

// MarshalText writes the name, so that stored identities can be read.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *Scope) UnmarshalText(text []byte) error {
	parsed, err := ParseScope(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}

// ParseScope reads what [Scope.String] writes. The empty string is the default, [ScopeUser]. Anything else is
// IDENTITY_MALFORMED.
func ParseScope(text string) (Scope, error) {
	if text == "" {
		return ScopeUser, nil
	}
	for scope, name := range scopeNames {
		if name == text {
			return Scope(scope), nil
		}
	}
	return ScopeUser, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonMalformed,
		"scope %q is not one of session, user, agent, global", clip(text)).With("field", "scope")
}
