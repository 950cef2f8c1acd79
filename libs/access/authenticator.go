package access

import (
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/protobuf/reflect/protoregistry"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Authenticator turns the credential of a call into a [Grant] and holds it against what the method needs. It may be
// used by many goroutines.
type Authenticator struct {
	mode       Mode
	clientKey  any
	parser     *jwt.Parser
	capability *Verifier
	methods    methods
}

// Options are what an [Authenticator] may be given beside its settings.
type Options struct {
	// KeySet verifies capabilities that are minted in this process. It goes before Config.KeySetFile.
	KeySet *KeySet
	// Files is where methods are looked up. Nil: the protos linked into the program.
	Files *protoregistry.Files
	// Now is the clock. Nil: the real one.
	Now func() time.Time
}

// New returns an authenticator. It fails when the settings contradict each other or a key cannot be read.
func New(cfg Config, opts Options) (*Authenticator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Files == nil {
		opts.Files = protoregistry.GlobalFiles
	}
	a := &Authenticator{mode: cfg.Mode, methods: methods{files: opts.Files}}
	if a.mode == "" {
		a.mode = ModeNone
	}
	if a.mode == ModeJWT {
		key, err := cfg.clientKey()
		if err != nil {
			return nil, err
		}
		a.clientKey, a.parser = key, clientParser(cfg, opts.Now)
	}
	switch {
	case opts.KeySet != nil:
		a.capability = NewVerifier(opts.KeySet, opts.Now)
	case cfg.KeySetFile != "":
		var err error
		if a.capability, err = NewFileVerifier(cfg.KeySetFile, opts.Now); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func clientParser(cfg Config, now func() time.Time) *jwt.Parser {
	opts := []jwt.ParserOption{
		jwt.WithValidMethods([]string{cfg.JWTAlgorithm}), jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now),
	}
	if cfg.JWTIssuer != "" {
		opts = append(opts, jwt.WithIssuer(cfg.JWTIssuer))
	}
	if cfg.JWTAudience != "" {
		opts = append(opts, jwt.WithAudience(cfg.JWTAudience))
	}
	return jwt.NewParser(opts...)
}

// Mode returns the mode.
func (a *Authenticator) Mode() Mode { return a.mode }

// Authorize decides about one call: its full method name, the identity of its metadata, and its bearer tokens (the
// values of the authorization key). The grant holds the identity to act on, with the tenant and user of the credential;
// token is the bearer token to carry on to other services, if any.
//
// The errors are UNAUTHENTICATED (CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED) and PERMISSION_DENIED
// (ACCESS_UNDECLARED, ACCESS_INTERNAL, VERB_MISSING, IDENTITY_MISMATCH).
func (a *Authenticator) Authorize(method string, id identity.Identity, authorization []string) (g Grant, token string, err error) {
	need, err := a.methods.lookup(method)
	if err != nil {
		return Grant{}, "", err
	}
	bearer, err := bearerOf(authorization, a.mode)
	if err != nil {
		return Grant{}, "", err
	}
	public := need.Audience == commonv1.Audience_AUDIENCE_PUBLIC
	g, token, err = a.grant(id, bearer, public)
	if err != nil {
		return Grant{}, "", err
	}
	if need.Audience == commonv1.Audience_AUDIENCE_INTERNAL && !g.Internal() {
		return Grant{}, "", denied(ReasonAudience, "the method is for Gantry services only").With("method", method)
	}
	if err := g.Check(need.Verbs...); err != nil {
		return Grant{}, "", err
	}
	return g, token, nil
}

// grant finds out who calls.
func (a *Authenticator) grant(id identity.Identity, bearer string, public bool) (Grant, string, error) {
	switch {
	case bearer != "" && isCapability(bearer):
		g, err := a.byCapability(id, bearer)
		return g, bearer, err
	case a.mode == ModeNone:
		// Tools send some token whether one is asked for or not; here it means nothing.
		return trusted(id), "", nil
	case bearer != "":
		g, err := a.byClient(id, bearer)
		return g, bearer, err
	case public:
		id.Tenant = identity.DefaultTenant
		return Grant{Source: SourcePublic, Identity: id}, "", nil
	}
	return Grant{}, "", unauthenticated(ReasonCredentialMissing, "the call needs a credential: authorization: Bearer …")
}

// trusted is the grant of mode none.
func trusted(id identity.Identity) Grant {
	id.Tenant = identity.DefaultTenant
	all := []string{Wildcard}
	return Grant{Source: SourceTrusted, Identity: id, Verbs: all, Agents: all, Scopes: all, Anonymous: true}
}

// byCapability verifies a capability and holds the metadata to it.
func (a *Authenticator) byCapability(id identity.Identity, bearer string) (Grant, error) {
	if a.capability == nil {
		return Grant{}, unauthenticated(ReasonCredentialInvalid,
			"the call has a capability and this server has no keys to verify it; set auth-capability-keys")
	}
	c, err := a.capability.Verify(bearer)
	if err != nil {
		return Grant{}, err
	}
	for _, f := range [...]struct{ name, metadata, capability string }{
		{"agent", id.Agent, c.Identity.Agent}, {"user", id.User, c.Identity.User}, {"session", id.Session, c.Identity.Session},
	} {
		if f.metadata != f.capability {
			return Grant{}, mismatch(f.name)
		}
	}
	if !id.ScopeUnset && id.Scope != c.Identity.Scope {
		return Grant{}, mismatch("scope")
	}
	g := c.Grant()
	g.Identity.RequestID, g.Identity.Effect, g.Identity.Sandbox = id.RequestID, id.Effect, id.Sandbox
	return g, nil
}

// byClient verifies a client's token and holds the metadata to its claims.
func (a *Authenticator) byClient(id identity.Identity, bearer string) (Grant, error) {
	var claims ClientClaims
	if _, err := a.parser.ParseWithClaims(bearer, &claims, func(*jwt.Token) (any, error) { return a.clientKey, nil }); err != nil {
		return Grant{}, tokenError("token", err)
	}
	g, err := claims.grant()
	if err != nil {
		return Grant{}, err
	}
	id.Tenant = g.Identity.Tenant
	if id.User, err = claims.user(id.User); err != nil {
		return Grant{}, err
	}
	if !g.AllowsAgent(id.Agent) {
		return Grant{}, denied(ReasonIdentityMismatch, "the credential does not allow this agent").With("field", "agent")
	}
	if !g.AllowsScope(effectiveScope(id)) {
		return Grant{}, denied(ReasonIdentityMismatch, "the credential does not allow scope %s", effectiveScope(id)).With("field", "scope")
	}
	g.Identity = id
	return g, nil
}

// grant is what the claims allow, before the metadata is looked at.
func (c ClientClaims) grant() (Grant, error) {
	tenant := c.Tenant
	if tenant == "" {
		tenant = identity.DefaultTenant
	}
	for _, f := range [...]struct{ name, value string }{{"tenant", tenant}, {"user", c.User}} {
		if f.value == "" {
			continue
		}
		if err := identity.ValidateID(f.name, f.value); err != nil {
			return Grant{}, unauthenticated(ReasonCredentialInvalid, "the token's claim %s is no id: %w", f.name, err)
		}
	}
	g := Grant{
		Source: SourceClient, Identity: identity.Identity{Tenant: tenant},
		Verbs: c.Verbs, Agents: c.Agents, Scopes: c.Scopes, Anonymous: c.Anonymous || c.Service,
	}
	if c.Service {
		g.Source = SourceService
	}
	if len(g.Scopes) == 0 {
		g.Scopes = []string{identity.ScopeSession.String(), identity.ScopeUser.String()}
	}
	if c.ExpiresAt != nil {
		g.Expiry = c.ExpiresAt.Time
	}
	return g, nil
}

// user returns the user to act for, given the one that the metadata names.
func (c ClientClaims) user(named string) (string, error) {
	anyUser := c.User == Wildcard || (c.User == "" && c.Service)
	switch {
	case named == "" && c.User != "" && c.User != Wildcard:
		return c.User, nil
	case named == "" && !c.Anonymous && !c.Service:
		return "", denied(ReasonIdentityMismatch, "the credential does not allow anonymous calls").With("field", "user")
	case named == "" || anyUser || named == c.User:
		return named, nil
	}
	return "", mismatch("user")
}

// effectiveScope is the scope that the bucket will have: user degrades to session when there is no user.
func effectiveScope(id identity.Identity) identity.Scope {
	if id.Scope == identity.ScopeUser && id.User == "" {
		return identity.ScopeSession
	}
	return id.Scope
}

func mismatch(field string) error {
	return denied(ReasonIdentityMismatch, "the metadata names another %s than the credential", field).With("field", field)
}

// bearerOf returns the token of the authorization metadata, "" when there is none. Schemes other than Bearer are
// refused, except in mode none, where they mean nothing.
func bearerOf(values []string, mode Mode) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	// The REST gateway hands the HTTP header over as well, so equal copies are one.
	if unique := slices.Compact(slices.Clone(values)); len(unique) > 1 {
		return "", unauthenticated(ReasonCredentialInvalid, "authorization is given %d times", len(values))
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		if mode == ModeNone {
			return "", nil
		}
		return "", unauthenticated(ReasonCredentialInvalid, "authorization is not of the form: Bearer …")
	}
	return strings.TrimSpace(token), nil
}
