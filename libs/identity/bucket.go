package identity

import (
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Bucket is the data that one isolation scope selects. It is comparable, so it can be a map key. Fields that the scope
// does not use are empty.
type Bucket struct {
	// Tenant is always set.
	Tenant string `json:"tenant,omitempty"`
	// Scope says which of the ids below count.
	Scope Scope `json:"scope"`
	// Agent is set in the scopes session, user and agent.
	Agent string `json:"agent,omitempty"`
	// User is set in scope user, and in scope session unless the session is anonymous.
	User string `json:"user,omitempty"`
	// Session is set in scope session.
	Session string `json:"session,omitempty"`
}

// Bucket resolves the scope: session = (tenant, agent, user, session), user = (tenant, agent, user), agent = (tenant,
// agent), global = (tenant). Scope user without a user degrades to session; scope session without a session id is
// IDENTITY_REQUIRED. Agent and global never degrade. A missing tenant or agent counts as the default one.
func (id Identity) Bucket() (Bucket, error) {
	if err := id.Validate(); err != nil {
		return Bucket{}, err
	}
	b := Bucket{Tenant: orDefault(id.Tenant, DefaultTenant), Scope: id.Scope}
	if b.Scope == ScopeGlobal {
		return b, nil
	}
	b.Agent = orDefault(id.Agent, DefaultAgent)
	if b.Scope == ScopeAgent {
		return b, nil
	}
	b.User = id.User
	if b.Scope == ScopeUser && b.User != "" {
		return b, nil
	}
	// A missing user must never widen what is seen: two anonymous sessions have nothing in common.
	b.Scope, b.Session = ScopeSession, id.Session
	if b.Session == "" {
		return Bucket{}, required("session", "scope %s needs a session id, or a user id for scope user", id.Scope)
	}
	return b, nil
}

// Key returns the bucket as text: tenant, scope and ids, each encoded by [EncodeSegment], joined by "/", for example
// "default/user/coder/ana".
//
// Keys are injective, the same on file systems that ignore case, and usable both as a relative directory path and as a
// store key (compare bytes: COLLATE "C"). Followed by "/", no key is a prefix of another one: no bucket lies inside
// another.
func (b Bucket) Key() string {
	parts := []string{EncodeSegment(b.Tenant), b.Scope.String()}
	switch b.Scope {
	case ScopeGlobal:
	case ScopeAgent:
		parts = append(parts, EncodeSegment(b.Agent))
	case ScopeUser:
		parts = append(parts, EncodeSegment(b.Agent), EncodeSegment(b.User))
	case ScopeSession:
		parts = append(parts, EncodeSegment(b.Agent), EncodeSegment(b.User), EncodeSegment(b.Session))
	}
	return strings.Join(parts, "/")
}

// String returns the key, for logs.
func (b Bucket) String() string { return b.Key() }

// Validate checks that the bucket is one that [Identity.Bucket] can return: the ids that the scope needs are there, and
// no others.
func (b Bucket) Validate() error {
	got, err := Identity{Tenant: b.Tenant, Agent: b.Agent, User: b.User, Session: b.Session, Scope: b.Scope}.Bucket()
	if err != nil {
		return err
	}
	if got != b {
		return malformed("bucket", "has ids that scope %s does not use, or lacks some that it needs", b.Scope)
	}
	return nil
}

// ParseBucket reads what [Bucket.Key] writes, and nothing else. The reason of the error is IDENTITY_MALFORMED.
func ParseBucket(key string) (Bucket, error) {
	ids, err := splitKey(key)
	if err != nil {
		return Bucket{}, err
	}
	if len(ids) < 2 {
		return Bucket{}, badKey("bucket", key)
	}
	scope, err := ParseScope(ids[1])
	if err != nil || ids[1] == "" {
		return Bucket{}, badKey("bucket", key)
	}
	b := Bucket{Tenant: ids[0], Scope: scope}
	want := map[Scope]int{ScopeGlobal: 2, ScopeAgent: 3, ScopeUser: 4, ScopeSession: 5}[scope]
	if len(ids) != want {
		return Bucket{}, badKey("bucket", key)
	}
	for i, field := range []*string{&b.Agent, &b.User, &b.Session}[:want-2] {
		*field = ids[i+2]
	}
	if b.Validate() != nil || b.Key() != key {
		return Bucket{}, badKey("bucket", key)
	}
	return b, nil
}

// badKey is the error of a text that is no key.
func badKey(kind, key string) error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonMalformed, "%q is not the key of a %s", clip(key), kind).
		With("field", kind)
}

func orDefault(id, fallback string) string {
	if id == "" {
		return fallback
	}
	return id
}
