package main

import (
	"fmt"
	"regexp"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
)

// bucket is one of the buckets under test.
type bucket struct {
	name  string
	mark  string // in each line that is written to it, and in no other bucket's
	id    identity.Identity
	token string
}

// identities are those of the buckets: all scopes, three tenants, ids that look like paths, patterns and keys, and ids that begin with one another.
var identities = []identity.Identity{
	{Tenant: "acme", Agent: "coder", User: "a"},
	{Tenant: "acme", Agent: "coder", User: "a/../b"},
	{Tenant: "acme", Agent: "coder", User: "a", Session: "b", Scope: identity.ScopeSession},
	{Tenant: "acme", Agent: "coder", User: "a/b", Session: "%2e*_?[x]", Scope: identity.ScopeSession},
	{Tenant: "acme", Agent: "coder", User: "a", Scope: identity.ScopeAgent},
	{Tenant: "acme", User: "a", Scope: identity.ScopeGlobal},
	{Tenant: "acme/user", Agent: "coder", User: "a"},
	{Tenant: "ACME", Agent: "Coder:ü", User: ".. 🐟"},
}

// secret signs the tokens of this run.
const secret = "torture needs a secret that nobody else has to know"

// marks finds the markers in content.
var marks = regexp.MustCompile(`<<b\d>>`)

// newBuckets makes a token for each bucket: the tenant comes from the credential alone.
func newBuckets(now time.Time) ([]*bucket, error) {
	var out []*bucket
	for i, id := range identities {
		claims := access.ClientClaims{
			RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(now.Add(24 * time.Hour))},
			Tenant:           id.Tenant, User: "*", Agents: []string{"*"}, Scopes: []string{"*"}, Verbs: []string{"*"},
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			return nil, err
		}
		key, err := id.Bucket()
		if err != nil {
			return nil, err
		}
		id.Tenant = "" // the token says it
		out = append(out, &bucket{name: key.Key(), mark: fmt.Sprintf("<<b%d>>", i), id: id, token: token})
	}
	return out, nil
}
