package access

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/gantry-agents/gantry/libs/identity"
)

// Wildcard stands for every verb, agent or scope in a grant.
const Wildcard = "*"

// Source says where a grant comes from.
type Source string

// The sources of grants.
const (
	// SourceTrusted: mode none, no credential.
	SourceTrusted Source = "trusted"
	// SourceClient: a client's JWT.
	SourceClient Source = "client"
	// SourceService: a JWT with the service claim.
	SourceService Source = "service"
	// SourceCapability: a capability of the orchestrator.
	SourceCapability Source = "capability"
	// SourcePublic: a call of a public method without credential.
	SourcePublic Source = "public"
)

// Grant is what the caller may do. It can be stored (runs and tasks do); it holds no token. The zero value allows
// nothing.
type Grant struct {
	// Source says where the grant comes from.
	Source Source `json:"source"`
	// Identity is on whose behalf the call acts, with the tenant of the credential.
	Identity identity.Identity `json:"identity"`
	// Bucket is the bucket of a capability. Nil: the identity's scope selects it.
	Bucket *identity.Bucket `json:"bucket,omitempty"`
	// Run and Epoch are those of a capability.
	Run   string `json:"run,omitempty"`
	Epoch int64  `json:"epoch,omitempty"`
	// Verbs are the verbs granted; [Wildcard] grants all.
	Verbs []string `json:"verbs"`
	// PathPrefixes limit the paths. Nil: no limit. Empty but not nil: no path at all.
	PathPrefixes []string `json:"path_prefixes"`
	// Agents and Scopes limit what the caller may choose in metadata; [Wildcard] allows all.
	Agents []string `json:"agents"`
	Scopes []string `json:"scopes"`
	// Anonymous says that the credential allows calls without a user.
	Anonymous bool `json:"anonymous,omitempty"`
	// Expiry is when the credential ends. Zero: never.
	Expiry time.Time `json:"expiry,omitzero"`
}

// Allows says whether the grant has the verb.
func (g Grant) Allows(verb string) bool { return has(g.Verbs, verb) }

// AllowsAgent says whether the caller may use that agent.
func (g Grant) AllowsAgent(agent string) bool { return has(g.Agents, agent) }

// AllowsScope says whether the caller may choose that scope.
func (g Grant) AllowsScope(scope identity.Scope) bool { return has(g.Scopes, scope.String()) }

// Internal says whether the caller is a Gantry service, so that methods with audience INTERNAL are open: a capability,
// the service claim, or mode none.
func (g Grant) Internal() bool {
	return g.Source == SourceCapability || g.Source == SourceService || g.Source == SourceTrusted
}

// AllowsPath says whether a bucket-relative path lies under one of the prefixes. Prefixes match whole names: "plans"
// covers "plans" and "plans/a" but not "plans2". A path that leaves the root is never allowed.
func (g Grant) AllowsPath(p string) bool {
	clean, ok := cleanPath(p)
	if !ok {
		return false
	}
	if g.PathPrefixes == nil {
		return true
	}
	return slices.ContainsFunc(g.PathPrefixes, func(prefix string) bool {
		cleanPrefix, ok := cleanPath(prefix)
		return ok && under(clean, cleanPrefix)
	})
}

// Check returns PERMISSION_DENIED with reason VERB_MISSING unless the grant has every verb.
func (g Grant) Check(verbs ...string) error {
	for _, verb := range verbs {
		if !g.Allows(verb) {
			return denied(ReasonVerbMissing, "the credential lacks the verb %s", verb).With("verb", verb)
		}
	}
	return nil
}

// CheckPath returns PERMISSION_DENIED with reason PATH_DENIED unless the grant allows the path.
func (g Grant) CheckPath(p string) error {
	if g.AllowsPath(p) {
		return nil
	}
	return denied(ReasonPathDenied, "the credential does not reach this path").With("path", p)
}

// Narrow returns the grant with at most these verbs and paths: the intersection, so the result never allows what g does
// not. Nil verbs or prefixes leave that side as it is; empty ones leave nothing.
func (g Grant) Narrow(verbs, prefixes []string) Grant {
	g.Verbs = narrowVerbs(g.Verbs, verbs)
	g.PathPrefixes = narrowPrefixes(g.PathPrefixes, prefixes)
	return g
}

// narrowVerbs intersects two lists of verbs, either of which may hold the wildcard.
func narrowVerbs(have, want []string) []string {
	if want == nil || slices.Contains(want, Wildcard) {
		return slices.Clone(have)
	}
	out := []string{}
	for _, verb := range want {
		if has(have, verb) && !slices.Contains(out, verb) {
			out = append(out, verb)
		}
	}
	return out
}

// narrowPrefixes intersects two lists of prefixes: of each pair where one covers the other, the inner one stays.
func narrowPrefixes(have, want []string) []string {
	if want == nil {
		return slices.Clone(have)
	}
	if have == nil {
		have = []string{"/"}
	}
	out := []string{}
	for _, h := range have {
		for _, w := range want {
			inner, ok := intersect(h, w)
			if ok && !slices.Contains(out, inner) {
				out = append(out, inner)
			}
		}
	}
	return out
}

// intersect returns what two prefixes have in common.
func intersect(a, b string) (string, bool) {
	cleanA, okA := cleanPath(a)
	cleanB, okB := cleanPath(b)
	switch {
	case !okA || !okB:
		return "", false
	case under(cleanA, cleanB):
		return cleanA, true
	case under(cleanB, cleanA):
		return cleanB, true
	}
	return "", false
}

// cleanPath returns the path without leading slash and dots, normalised as look-up does; "" is the root. It is not ok
// for a path that leaves the root.
func cleanPath(p string) (string, bool) {
	if strings.ContainsRune(p, 0) {
		return "", false
	}
	p = path.Clean(strings.TrimLeft(norm.NFC.String(p), "/"))
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", false
	}
	if p == "." {
		p = ""
	}
	return p, true
}

// under says whether a clean path is the prefix or lies beneath it.
func under(p, prefix string) bool {
	return prefix == "" || p == prefix || strings.HasPrefix(p, prefix+"/")
}

func has(list []string, item string) bool {
	return slices.Contains(list, item) || slices.Contains(list, Wildcard)
}

type grantKey struct{}
type tokenKey struct{}

// NewContext returns ctx with the grant of the call.
func NewContext(ctx context.Context, g Grant) context.Context {
	return context.WithValue(ctx, grantKey{}, g)
}

// FromContext returns the grant of the call, and whether there is one.
func FromContext(ctx context.Context) (Grant, bool) {
	g, ok := ctx.Value(grantKey{}).(Grant)
	return g, ok
}

// NewTokenContext returns ctx with the bearer token that calls to other services carry on: the verified token of the
// incoming call, or a capability.
func NewTokenContext(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenFromContext returns the bearer token to carry on, or "".
func TokenFromContext(ctx context.Context) string {
	token, _ := ctx.Value(tokenKey{}).(string)
	return token
}
