package access

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

const (
	// CapabilityIssuer is the issuer of every capability.
	CapabilityIssuer = "gantry-orchestrator"
	// CapabilityLife is how long a capability may open calls and streams.
	CapabilityLife = 5 * time.Minute
	// MaxCapabilityBytes bounds the token.
	MaxCapabilityBytes = 2 << 10
	// MaxPathPrefixes bounds the list of path prefixes.
	MaxPathPrefixes = 16
	// leeway is what clocks of two machines may differ by.
	leeway = 30 * time.Second
)

// Capability is what the orchestrator lets a run do at other services.
type Capability struct {
	// Identity is on whose behalf the run acts, with tenant. RequestID, Effect and Sandbox do not count.
	Identity identity.Identity
	// Bucket is the data of the run; its tenant is the identity's.
	Bucket identity.Bucket
	// Run and Epoch name the run and the lease of its thread under which the capability was minted.
	Run   string
	Epoch int64
	// Verbs are granted one by one; the wildcard is refused.
	Verbs []string
	// PathPrefixes limit the paths: at most 16. Nil: no limit. Empty but not nil: no path.
	PathPrefixes []string
	// Expiry is set by the minter.
	Expiry time.Time
}

// ServiceCapability is for what a service does for no user in particular, such as heartbeats of the owner of many
// threads: the default tenant and agent, scope global, and these verbs. What such a call may see of other tenants is
// for the method to say.
func ServiceCapability(verbs ...string) Capability {
	return Capability{
		Identity: identity.Identity{Tenant: identity.DefaultTenant, Agent: identity.DefaultAgent, Scope: identity.ScopeGlobal},
		Bucket:   identity.Bucket{Tenant: identity.DefaultTenant, Scope: identity.ScopeGlobal},
		Verbs:    verbs,
	}
}

// Narrow returns the capability of a child: at most these verbs and paths, as [Grant.Narrow].
func (c Capability) Narrow(verbs, prefixes []string) Capability {
	c.Verbs = narrowVerbs(c.Verbs, verbs)
	c.PathPrefixes = narrowPrefixes(c.PathPrefixes, prefixes)
	return c
}

// Grant returns the capability as the grant that a service sees.
func (c Capability) Grant() Grant {
	bucket := c.Bucket
	return Grant{
		Source: SourceCapability, Identity: c.Identity, Bucket: &bucket, Run: c.Run, Epoch: c.Epoch, Verbs: c.Verbs, PathPrefixes: c.PathPrefixes,
		Agents: []string{c.Identity.Agent}, Scopes: []string{c.Identity.Scope.String()}, Anonymous: c.Identity.User == "", Expiry: c.Expiry,
	}
}

// validate checks what a minter may sign and a verifier may accept.
func (c Capability) validate() error {
	for _, f := range [...]struct{ name, value string }{{"tenant", c.Identity.Tenant}, {"agent", c.Identity.Agent}} {
		if err := identity.ValidateID(f.name, f.value); err != nil {
			return err
		}
	}
	if err := c.Identity.Validate(); err != nil {
		return err
	}
	if err := c.Bucket.Validate(); err != nil {
		return err
	}
	switch {
	case c.Bucket.Tenant != c.Identity.Tenant:
		return invalidCapability("the bucket is of another tenant than the identity")
	case c.Bucket.User != "" && c.Bucket.User != c.Identity.User:
		return invalidCapability("the bucket is of another user than the identity")
	case len(c.PathPrefixes) > MaxPathPrefixes:
		return invalidCapability("there are %d path prefixes, at most %d are allowed", len(c.PathPrefixes), MaxPathPrefixes)
	}
	for _, verb := range c.Verbs {
		if verb == Wildcard || verb == "" {
			return invalidCapability("verbs are granted one by one, %q is none", verb)
		}
	}
	return nil
}

// ReasonCapabilityInvalid is the reason of a capability that cannot be minted.
const ReasonCapabilityInvalid = "CAPABILITY_INVALID"

func invalidCapability(format string, args ...any) error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonCapabilityInvalid, "capability: "+format, args...)
}

// Minter signs capabilities. Only the orchestrator has one.
type Minter struct {
	key ed25519.PrivateKey
	kid string
	now func() time.Time
}

// NewMinter returns a minter with that key; nil makes a key that lives as long as the process. A nil clock is the real
// one.
func NewMinter(key ed25519.PrivateKey, now func() time.Time) (*Minter, error) {
	if key == nil {
		var err error
		if _, key, err = ed25519.GenerateKey(rand.Reader); err != nil {
			return nil, err
		}
	}
	if len(key) != ed25519.PrivateKeySize {
		return nil, errors.New("access: the minting key is not an Ed25519 key")
	}
	if now == nil {
		now = time.Now
	}
	return &Minter{key: key, kid: KeyID(key.Public().(ed25519.PublicKey)), now: now}, nil
}

// KeySet returns the public half, for verifiers in the same process or for a file.
func (m *Minter) KeySet() *KeySet { return NewKeySet(m.key.Public().(ed25519.PublicKey)) }

// Mint returns the token of a capability that lives for [CapabilityLife], and its expiry. A capability that breaks the
// rules or would be longer than [MaxCapabilityBytes] is INVALID_ARGUMENT with reason CAPABILITY_INVALID or
// IDENTITY_MALFORMED.
func (m *Minter) Mint(c Capability) (token string, expiry time.Time, err error) {
	if err := c.validate(); err != nil {
		return "", time.Time{}, err
	}
	now := m.now()
	expiry = now.Add(CapabilityLife)
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claimsOf(c, now, expiry))
	t.Header["kid"] = m.kid
	token, err = t.SignedString(m.key)
	if err != nil {
		return "", time.Time{}, errdefs.New(errdefs.ErrInternal, errdefs.DomainCommon, "", "capability: sign: %w", err)
	}
	if len(token) > MaxCapabilityBytes {
		return "", time.Time{}, invalidCapability("the token has %d bytes, at most %d are allowed", len(token), MaxCapabilityBytes)
	}
	return token, expiry, nil
}

// Attach mints the capability and returns a context whose calls carry it, together with the identity that it names.
// Request id, effect and sandbox of the context's identity are kept.
func (m *Minter) Attach(ctx context.Context, c Capability) (context.Context, error) {
	token, _, err := m.Mint(c)
	if err != nil {
		return nil, err
	}
	id := c.Identity
	if before, ok := identity.FromContext(ctx); ok {
		id.RequestID, id.Effect, id.Sandbox = before.RequestID, before.Effect, before.Sandbox
	}
	ctx = identity.NewBucketContext(identity.NewContext(ctx, id), c.Bucket)
	return NewTokenContext(ctx, token), nil
}
