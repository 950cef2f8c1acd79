package access_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	_ "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

const (
	stat      = "/gantry.filesystem.v1.FilesystemService/Stat"
	write     = "/gantry.filesystem.v1.FilesystemService/Write"
	heartbeat = "/gantry.thread.v1.ThreadService/Heartbeat"
	healthy   = "/grpc.health.v1.Health/Check"
	secret    = "0123456789abcdef0123456789abcdef"
)

func newAuth(t testing.TB, mode access.Mode, keys *access.KeySet) *access.Authenticator {
	t.Helper()
	cfg := access.Config{Mode: mode, JWTAlgorithm: "HS256", JWTKey: secret}
	a, err := access.New(cfg, access.Options{KeySet: keys, Now: fixed})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sign(t testing.TB, claims access.ClientClaims) []string {
	t.Helper()
	if claims.ExpiresAt == nil {
		claims.ExpiresAt = jwt.NewNumericDate(now.Add(time.Hour))
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Bearer " + token}
}

func TestModeNone(t *testing.T) {
	m := newMinter(t, fixed)
	id := identity.Identity{Agent: "coder", User: "ana", Session: "s1", ScopeUnset: true}
	capable := []string{"Bearer " + mint(t, m, capability())}
	ben := id
	ben.User = "ben"
	tests := map[string]struct {
		method string
		id     identity.Identity
		auth   []string
		keys   *access.KeySet
		source access.Source
		reason string
	}{
		"trusted":                       {stat, id, nil, nil, access.SourceTrusted, ""},
		"internal is open":              {heartbeat, id, nil, nil, access.SourceTrusted, ""},
		"some token means nothing":      {stat, id, []string{"Bearer sk-anything"}, nil, access.SourceTrusted, ""},
		"another scheme means nothing":  {stat, id, []string{"Basic YTpi"}, nil, access.SourceTrusted, ""},
		"undeclared":                    {"/gantry.nope.v1.NopeService/Nope", id, nil, nil, "", access.ReasonUndeclared},
		"not a method":                  {"rubbish", id, nil, nil, "", access.ReasonUndeclared},
		"a message is no method":        {"/gantry.filesystem.v1/StatRequest", id, nil, nil, "", access.ReasonUndeclared},
		"health":                        {healthy, id, nil, nil, access.SourceTrusted, ""},
		"capability is enforced":        {stat, id, capable, m.KeySet(), access.SourceCapability, ""},
		"capability lacks the verb":     {heartbeat, id, capable, m.KeySet(), "", access.ReasonVerbMissing},
		"capability of somebody else":   {stat, ben, capable, m.KeySet(), "", access.ReasonIdentityMismatch},
		"capability without keys":       {stat, id, capable, nil, "", access.ReasonCredentialInvalid},
		"capability of another minter":  {stat, id, capable, newMinter(t, fixed).KeySet(), "", access.ReasonCredentialInvalid},
		"two different credentials":     {stat, id, append([]string{"Bearer x"}, capable...), m.KeySet(), "", access.ReasonCredentialInvalid},
		"the same credential, repeated": {stat, id, append(capable, capable...), m.KeySet(), access.SourceCapability, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, token, err := newAuth(t, access.ModeNone, tt.keys).Authorize(tt.method, tt.id, tt.auth)
			if errdefs.ReasonOf(err) != tt.reason {
				t.Fatalf("Authorize = %v, want reason %q", err, tt.reason)
			}
			if g.Source != tt.source {
				t.Errorf("source %q, want %q", g.Source, tt.source)
			}
			switch g.Source {
			case access.SourceTrusted:
				if g.Identity.Tenant != identity.DefaultTenant || token != "" || !g.Allows("anything") || g.Bucket != nil {
					t.Errorf("grant %+v, token %q", g, token)
				}
			case access.SourceCapability:
				if g.Identity.Tenant != "acme" || token == "" || g.Bucket == nil || g.Allows("exec") || !g.AllowsPath("plans/a") || g.AllowsPath("a") || g.Epoch != 4 {
					t.Errorf("grant %+v, token %q", g, token)
				}
			}
		})
	}
}

func TestACapabilityMustAgreeWithTheMetadata(t *testing.T) {
	m := newMinter(t, fixed)
	c := capability()
	auth := newAuth(t, access.ModeJWT, m.KeySet())
	bearer := []string{"Bearer " + mint(t, m, c)}
	good := identity.Identity{Agent: "coder", User: "ana", Session: "s1", RequestID: "r", Effect: "e", Sandbox: "sb"}
	tests := map[string]struct {
		change func(*identity.Identity)
		ok     bool
	}{
		"all equal":     {func(*identity.Identity) {}, true},
		"no scope":      {func(id *identity.Identity) { id.ScopeUnset = true }, true},
		"other agent":   {func(id *identity.Identity) { id.Agent = "default" }, false},
		"other user":    {func(id *identity.Identity) { id.User = "Ana" }, false},
		"no user":       {func(id *identity.Identity) { id.User = "" }, false},
		"other session": {func(id *identity.Identity) { id.Session = "s2" }, false},
		"no session":    {func(id *identity.Identity) { id.Session = "" }, false},
		"other scope":   {func(id *identity.Identity) { id.Scope = identity.ScopeGlobal }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			id := good
			tt.change(&id)
			g, _, err := auth.Authorize(stat, id, bearer)
			if !tt.ok {
				if !errors.Is(err, errdefs.ErrPermissionDenied) || errdefs.ReasonOf(err) != access.ReasonIdentityMismatch {
					t.Errorf("Authorize = %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if g.Identity.Tenant != "acme" || g.Identity.RequestID != "r" || g.Identity.Effect != "e" || g.Identity.Sandbox != "sb" || g.Identity.ScopeUnset {
				t.Errorf("identity %+v", g.Identity)
			}
		})
	}
}

func TestModeJWT(t *testing.T) {
	id := func(user string, scope identity.Scope) identity.Identity {
		return identity.Identity{Agent: "coder", User: user, Session: "s", Scope: scope}
	}
	ana := access.ClientClaims{Tenant: "acme", User: "ana", Agents: []string{"coder"}, Verbs: []string{"fs.read"}}
	with := func(change func(*access.ClientClaims)) access.ClientClaims {
		c := ana
		change(&c)
		return c
	}
	service := with(func(c *access.ClientClaims) { c.User, c.Service, c.Verbs = "", true, []string{"*"} })
	tests := map[string]struct {
		method string
		id     identity.Identity
		claims access.ClientClaims
		user   string
		reason string
	}{
		"own user":              {stat, id("ana", identity.ScopeUser), ana, "ana", ""},
		"user from the claim":   {stat, id("", identity.ScopeUser), ana, "ana", ""},
		"another user":          {stat, id("ben", identity.ScopeUser), ana, "", access.ReasonIdentityMismatch},
		"another case":          {stat, id("Ana", identity.ScopeUser), ana, "", access.ReasonIdentityMismatch},
		"verb missing":          {write, id("ana", identity.ScopeUser), ana, "", access.ReasonVerbMissing},
		"internal":              {heartbeat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.Verbs = []string{"*"} }), "", access.ReasonAudience},
		"internal for services": {heartbeat, id("ben", identity.ScopeUser), service, "ben", ""},
		"service for anyone":    {stat, id("ben", identity.ScopeUser), service, "ben", ""},
		"service for nobody":    {stat, id("", identity.ScopeUser), service, "", ""},
		"no verbs":              {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.Verbs = nil }), "", access.ReasonVerbMissing},
		"no agents":             {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.Agents = nil }), "", access.ReasonIdentityMismatch},
		"another agent":         {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.Agents = []string{"writer"} }), "", access.ReasonIdentityMismatch},
		"any agent":             {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.Agents = []string{"*"} }), "ana", ""},
		"session by default":    {stat, id("ana", identity.ScopeSession), ana, "ana", ""},
		"shared scopes are not": {stat, id("ana", identity.ScopeAgent), ana, "", access.ReasonIdentityMismatch},
		"global neither":        {stat, id("ana", identity.ScopeGlobal), ana, "", access.ReasonIdentityMismatch},
		"unless stated":         {stat, id("ana", identity.ScopeGlobal), with(func(c *access.ClientClaims) { c.Scopes = []string{"global"} }), "ana", ""},
		"then only those":       {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.Scopes = []string{"global"} }), "", access.ReasonIdentityMismatch},
		"anonymous refused":     {stat, id("", identity.ScopeUser), with(func(c *access.ClientClaims) { c.User = "" }), "", access.ReasonIdentityMismatch},
		"anonymous allowed":     {stat, id("", identity.ScopeUser), with(func(c *access.ClientClaims) { c.User, c.Anonymous = "", true }), "", ""},
		"anonymous, not ana":    {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.User, c.Anonymous = "", true }), "", access.ReasonIdentityMismatch},
		"any user":              {stat, id("ben", identity.ScopeUser), with(func(c *access.ClientClaims) { c.User = "*" }), "ben", ""},
		"any user, not nobody":  {stat, id("", identity.ScopeUser), with(func(c *access.ClientClaims) { c.User = "*" }), "", access.ReasonIdentityMismatch},
		"expired":               {stat, id("ana", identity.ScopeUser), with(func(c *access.ClientClaims) { c.ExpiresAt = jwt.NewNumericDate(now.Add(-time.Hour)) }), "", access.ReasonCredentialExpired},
		"claim is no id":        {stat, id("", identity.ScopeUser), with(func(c *access.ClientClaims) { c.User = "a\nb" }), "", access.ReasonCredentialInvalid},
	}
	auth := newAuth(t, access.ModeJWT, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, token, err := auth.Authorize(tt.method, tt.id, sign(t, tt.claims))
			if errdefs.ReasonOf(err) != tt.reason {
				t.Fatalf("Authorize = %v, want reason %q", err, tt.reason)
			}
			if err != nil {
				return
			}
			if g.Identity.Tenant != "acme" || g.Identity.User != tt.user || token == "" {
				t.Errorf("identity %+v, token %q", g.Identity, token)
			}
		})
	}
}

func TestModeJWTWithoutAGoodToken(t *testing.T) {
	auth := newAuth(t, access.ModeJWT, nil)
	id := identity.Identity{Agent: "coder", User: "ana"}
	m := newMinter(t, fixed)
	hs := func(key string, claims jwt.Claims) []string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return []string{"Bearer " + token}
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"exp": now.Add(time.Hour).Unix()}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		method string
		auth   []string
		reason string
	}{
		"none":            {stat, nil, access.ReasonCredentialMissing},
		"health needs no": {healthy, nil, ""},
		"wrong key":       {stat, hs(strings.Repeat("x", 32), access.ClientClaims{RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour))}}), access.ReasonCredentialInvalid},
		"no expiry":       {stat, hs(secret, access.ClientClaims{User: "ana"}), access.ReasonCredentialInvalid},
		"alg none":        {stat, []string{"Bearer " + none}, access.ReasonCredentialInvalid},
		"rubbish":         {stat, []string{"Bearer abc"}, access.ReasonCredentialInvalid},
		"another scheme":  {stat, []string{"Basic YTpi"}, access.ReasonCredentialInvalid},
		"no scheme":       {stat, []string{"abc"}, access.ReasonCredentialInvalid},
		"says it is a capability": {stat, hs(secret, jwt.MapClaims{"iss": access.CapabilityIssuer, "exp": now.Add(time.Hour).Unix(), "ten": "acme", "agt": "coder"}),
			access.ReasonCredentialInvalid},
		"capability of a stranger": {stat, []string{"Bearer " + mint(t, m, capability())}, access.ReasonCredentialInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := auth.Authorize(tt.method, id, tt.auth)
			if errdefs.ReasonOf(err) != tt.reason {
				t.Fatalf("Authorize = %v, want reason %q", err, tt.reason)
			}
			if err != nil && !errors.Is(err, errdefs.ErrUnauthenticated) {
				t.Errorf("class of %v", err)
			}
		})
	}
}

func TestConfigKeys(t *testing.T) {
	dir := t.TempDir()
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaPrivate, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, public any) string {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	edFile, rsaFile := write("ed.pem", edPublic), write("rsa.pem", &rsaPrivate.PublicKey)
	claims := access.ClientClaims{User: "ana", Agents: []string{"*"}, Verbs: []string{"*"}, RegisteredClaims: jwt.RegisteredClaims{
		ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)), Issuer: "idp", Audience: jwt.ClaimStrings{"gantry"},
	}}
	tests := map[string]struct {
		cfg    access.Config
		method jwt.SigningMethod
		key    any
		start  bool
		call   bool
	}{
		"EdDSA":           {access.Config{JWTAlgorithm: "EdDSA", JWTKeyFile: edFile, JWTIssuer: "idp", JWTAudience: "gantry"}, jwt.SigningMethodEdDSA, edPrivate, true, true},
		"RS256":           {access.Config{JWTAlgorithm: "RS256", JWTKeyFile: rsaFile}, jwt.SigningMethodRS256, rsaPrivate, true, true},
		"other issuer":    {access.Config{JWTAlgorithm: "RS256", JWTKeyFile: rsaFile, JWTIssuer: "else"}, jwt.SigningMethodRS256, rsaPrivate, true, false},
		"other audience":  {access.Config{JWTAlgorithm: "RS256", JWTKeyFile: rsaFile, JWTAudience: "else"}, jwt.SigningMethodRS256, rsaPrivate, true, false},
		"key as a secret": {access.Config{JWTAlgorithm: "RS256", JWTKeyFile: rsaFile}, jwt.SigningMethodHS256, mustRead(t, rsaFile), true, false},
		"wrong kind":      {access.Config{JWTAlgorithm: "EdDSA", JWTKeyFile: rsaFile}, nil, nil, false, false},
		"short secret":    {access.Config{JWTAlgorithm: "HS256", JWTKey: "short"}, nil, nil, false, false},
		"no key":          {access.Config{JWTAlgorithm: "HS256"}, nil, nil, false, false},
		"two keys":        {access.Config{JWTAlgorithm: "HS256", JWTKey: secret, JWTKeyFile: edFile}, nil, nil, false, false},
		"no such file":    {access.Config{JWTAlgorithm: "EdDSA", JWTKeyFile: filepath.Join(dir, "none")}, nil, nil, false, false},
		"not PEM":         {access.Config{JWTAlgorithm: "EdDSA", JWTKey: config.Secret("abc")}, nil, nil, false, false},
		"no such mode":    {access.Config{Mode: "open"}, nil, nil, false, false},
		"broken key set":  {access.Config{JWTAlgorithm: "HS256", JWTKey: secret, KeySetFile: edFile}, nil, nil, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.cfg.Mode == "" {
				tt.cfg.Mode = access.ModeJWT
			}
			a, err := access.New(tt.cfg, access.Options{Now: fixed})
			if (err == nil) != tt.start {
				t.Fatalf("New = %v, want it to start: %v", err, tt.start)
			}
			if err != nil {
				return
			}
			token, err := jwt.NewWithClaims(tt.method, claims).SignedString(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = a.Authorize(stat, identity.Identity{Agent: "coder", User: "ana"}, []string{"Bearer " + token})
			if (err == nil) != tt.call {
				t.Errorf("Authorize = %v, want it to pass: %v", err, tt.call)
			}
		})
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
