package access

import (
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gantry-agents/gantry/libs/identity"
)

// capabilityClaims is the published schema of a capability. Names are short because the token travels with every call.
type capabilityClaims struct {
	jwt.RegisteredClaims
	// Tenant, Agent, User, Session and Scope are the identity. User and Session may be empty.
	Tenant  string `json:"ten"`
	Agent   string `json:"agt"`
	User    string `json:"usr,omitempty"`
	Session string `json:"ses,omitempty"`
	Scope   string `json:"sco"`
	// Bucket is left out when it is what the identity selects.
	Bucket *bucketClaims `json:"bkt,omitempty"`
	// Run and Epoch name the run and the lease.
	Run   string `json:"run,omitempty"`
	Epoch int64  `json:"epo,omitempty"`
	// Verbs are the verbs granted.
	Verbs []string `json:"vrb"`
	// Paths are the path prefixes; null: no limit, an empty list: no path.
	Paths []string `json:"pth"`
}

// bucketClaims is a bucket; its tenant is the identity's.
type bucketClaims struct {
	Scope   string `json:"sco"`
	Agent   string `json:"agt,omitempty"`
	User    string `json:"usr,omitempty"`
	Session string `json:"ses,omitempty"`
}

func claimsOf(c Capability, now, expiry time.Time) *capabilityClaims {
	claims := &capabilityClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: CapabilityIssuer, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expiry),
		},
		Tenant: c.Identity.Tenant, Agent: c.Identity.Agent, User: c.Identity.User, Session: c.Identity.Session, Scope: c.Identity.Scope.String(),
		Run: c.Run, Epoch: c.Epoch, Verbs: c.Verbs, Paths: c.PathPrefixes,
	}
	if own, err := c.Identity.Bucket(); err != nil || own != c.Bucket {
		claims.Bucket = &bucketClaims{Scope: c.Bucket.Scope.String(), Agent: c.Bucket.Agent, User: c.Bucket.User, Session: c.Bucket.Session}
	}
	return claims
}

// capability reads the claims back and checks them.
func (claims *capabilityClaims) capability() (Capability, error) {
	scope, err := identity.ParseScope(claims.Scope)
	if err != nil {
		return Capability{}, err
	}
	c := Capability{
		Identity: identity.Identity{Tenant: claims.Tenant, Agent: claims.Agent, User: claims.User, Session: claims.Session, Scope: scope},
		Run:      claims.Run, Epoch: claims.Epoch, Verbs: claims.Verbs, PathPrefixes: claims.Paths,
	}
	if claims.ExpiresAt != nil {
		c.Expiry = claims.ExpiresAt.Time
	}
	if b := claims.Bucket; b != nil {
		scope, err := identity.ParseScope(b.Scope)
		if err != nil {
			return Capability{}, err
		}
		c.Bucket = identity.Bucket{Tenant: claims.Tenant, Scope: scope, Agent: b.Agent, User: b.User, Session: b.Session}
	} else if c.Bucket, err = c.Identity.Bucket(); err != nil {
		return Capability{}, err
	}
	return c, c.validate()
}

// ClientClaims is what a client's JWT may say. The claim exp is required.
type ClientClaims struct {
	jwt.RegisteredClaims
	// Tenant of the client. Empty: the default tenant.
	Tenant string `json:"tenant,omitempty"`
	// User fixes the user. "*": any user that the metadata names. Empty: none, so only anonymous calls, if Anonymous
	// allows them.
	User string `json:"user,omitempty"`
	// Agents are the agents that may be used; "*" is all of them. Empty: none.
	Agents []string `json:"agents,omitempty"`
	// Scopes are the scopes that may be chosen; "*" is all of them. Empty: session and user, in which nothing is
	// shared.
	Scopes []string `json:"scopes,omitempty"`
	// Verbs are the verbs granted; "*" is all of them. Empty: none.
	Verbs []string `json:"verbs,omitempty"`
	// Service says that the caller is a Gantry service: methods with audience INTERNAL are open, and any user may be
	// named.
	Service bool `json:"service,omitempty"`
	// Anonymous allows calls without a user.
	Anonymous bool `json:"anonymous,omitempty"`
}
