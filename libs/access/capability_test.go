package access_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func fixed() time.Time { return now }

// capability is a sound one.
func capability() access.Capability {
	return access.Capability{
		Identity: identity.Identity{Tenant: "acme", Agent: "coder", User: "ana", Session: "s1"},
		Bucket:   identity.Bucket{Tenant: "acme", Scope: identity.ScopeUser, Agent: "coder", User: "ana"},
		Run:      "run-1", Epoch: 4, Verbs: []string{"fs.read", "fs.write"}, PathPrefixes: []string{"plans"},
	}
}

func newMinter(t testing.TB, clock func() time.Time) *access.Minter {
	t.Helper()
	m, err := access.NewMinter(nil, clock)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mint(t testing.TB, m *access.Minter, c access.Capability) string {
	t.Helper()
	token, _, err := m.Mint(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestCapabilityRoundTrip(t *testing.T) {
	m := newMinter(t, fixed)
	v := access.NewVerifier(m.KeySet(), fixed)
	shared := capability()
	shared.Identity.Agent, shared.Identity.Session = "general-purpose", "s2"
	unlimited := capability()
	unlimited.PathPrefixes = nil
	nowhere := capability()
	nowhere.PathPrefixes = []string{}
	tests := map[string]access.Capability{
		"own bucket": capability(), "bucket of the parent": shared, "no limit of paths": unlimited, "no path": nowhere,
		"for the service itself": access.ServiceCapability("thread.write"),
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			token, expiry, err := m.Mint(c)
			if err != nil {
				t.Fatal(err)
			}
			if want := now.Add(access.CapabilityLife); !expiry.Equal(want) {
				t.Errorf("expiry %v, want %v", expiry, want)
			}
			got, err := v.Verify(token)
			if err != nil {
				t.Fatal(err)
			}
			c.Expiry = got.Expiry
			if diff := cmp.Diff(c, got); diff != "" {
				t.Errorf("(-minted +verified):\n%s", diff)
			}
			if !got.Expiry.Equal(expiry) {
				t.Errorf("expiry %v, want %v", got.Expiry, expiry)
			}
		})
	}
}

func TestMintRefuses(t *testing.T) {
	m := newMinter(t, fixed)
	tests := map[string]func(*access.Capability){
		"no tenant":          func(c *access.Capability) { c.Identity.Tenant = "" },
		"no agent":           func(c *access.Capability) { c.Identity.Agent = "" },
		"malformed user":     func(c *access.Capability) { c.Identity.User = "a\nb" },
		"other tenant":       func(c *access.Capability) { c.Bucket.Tenant = "evil" },
		"other user":         func(c *access.Capability) { c.Bucket.User = "ben" },
		"half a bucket":      func(c *access.Capability) { c.Bucket = identity.Bucket{Tenant: "acme"} },
		"17 prefixes":        func(c *access.Capability) { c.PathPrefixes = make([]string, 17) },
		"wildcard":           func(c *access.Capability) { c.Verbs = []string{"*"} },
		"longer than 2 KiB":  func(c *access.Capability) { c.PathPrefixes = []string{strings.Repeat("p", 2000)} },
		"long run is no way": func(c *access.Capability) { c.Run = strings.Repeat("r", 2000) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			c := capability()
			change(&c)
			if _, _, err := m.Mint(c); !errors.Is(err, errdefs.ErrInvalidArgument) {
				t.Errorf("Mint = %v, want INVALID_ARGUMENT", err)
			}
		})
	}
}

func TestLongestIdentityFits(t *testing.T) {
	c := capability()
	long := strings.Repeat("x", 256)
	c.Identity = identity.Identity{Tenant: long, Agent: long, User: long, Session: long}
	var err error
	if c.Bucket, err = c.Identity.Bucket(); err != nil {
		t.Fatal(err)
	}
	mint(t, newMinter(t, fixed), c)
}

func TestVerifyRefuses(t *testing.T) {
	m := newMinter(t, fixed)
	good := mint(t, m, capability())
	parts := strings.Split(good, ".")
	forged := strings.ReplaceAll(string(decode(t, parts[1])), `"usr":"ana"`, `"usr":"ben"`)
	signed := func(method jwt.SigningMethod, key any, change func(jwt.MapClaims)) string {
		var claims jwt.MapClaims
		if err := json.Unmarshal(decode(t, parts[1]), &claims); err != nil {
			t.Fatal(err)
		}
		change(claims)
		token := jwt.NewWithClaims(method, claims)
		var header map[string]any
		if err := json.Unmarshal(decode(t, parts[0]), &header); err != nil {
			t.Fatal(err)
		}
		token.Header["kid"] = header["kid"]
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	_, otherKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	same := func(jwt.MapClaims) {}
	tests := map[string]struct {
		token  string
		at     time.Time
		reason string
	}{
		"changed claims":        {parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(forged)) + "." + parts[2], now, access.ReasonCredentialInvalid},
		"other key, same id":    {signed(jwt.SigningMethodEdDSA, otherKey, same), now, access.ReasonCredentialInvalid},
		"no signature":          {signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, same), now, access.ReasonCredentialInvalid},
		"key used as a secret":  {signed(jwt.SigningMethodHS256, []byte("public"), same), now, access.ReasonCredentialInvalid},
		"unknown key":           {mint(t, newMinter(t, fixed), capability()), now, access.ReasonCredentialInvalid},
		"old":                   {good, now.Add(access.CapabilityLife + time.Minute), access.ReasonCredentialExpired},
		"not yet":               {good, now.Add(-time.Hour), access.ReasonCredentialInvalid},
		"too long":              {good + strings.Repeat("x", 2<<10), now, access.ReasonCredentialInvalid},
		"rubbish":               {"a.b.c", now, access.ReasonCredentialInvalid},
		"empty":                 {"", now, access.ReasonCredentialInvalid},
		"good, a little behind": {good, now.Add(-10 * time.Second), ""},
		"good to the end":       {good, now.Add(access.CapabilityLife), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := access.NewVerifier(m.KeySet(), func() time.Time { return tt.at })
			_, err := v.Verify(tt.token)
			if errdefs.ReasonOf(err) != tt.reason {
				t.Fatalf("Verify = %v, want reason %q", err, tt.reason)
			}
			if err != nil && !errors.Is(err, errdefs.ErrUnauthenticated) {
				t.Errorf("class of %v", err)
			}
		})
	}
}

func decode(t testing.TB, part string) []byte {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// alter changes one character within the signature. The last two may not be taken for that: some of their bits count for nothing, and a fixed
// replacement is now and then what stands there.
func alter(token string) string {
	b := []byte(token)
	at := len(b) - 10
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

func TestAVerifiedCapabilityIsRememberedUntilItEnds(t *testing.T) {
	clock := now
	m := newMinter(t, fixed)
	v := access.NewVerifier(m.KeySet(), func() time.Time { return clock })
	token := mint(t, m, capability())
	first, err := v.Verify(token)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := v.Verify(token); err != nil || !cmp.Equal(first, again) {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	if _, err := v.Verify(alter(token)); err == nil {
		t.Error("a token that is almost the remembered one was taken")
	}
	clock = now.Add(access.CapabilityLife + time.Minute)
	if _, err := v.Verify(token); errdefs.ReasonOf(err) != access.ReasonCredentialExpired {
		t.Errorf("after its end: %v", err)
	}
	clock = now
	for i := range 1200 {
		c := capability()
		c.Epoch = int64(i)
		if got, err := v.Verify(mint(t, m, c)); err != nil || got.Epoch != int64(i) {
			t.Fatalf("capability %d: %+v, %v", i, got, err)
		}
	}
}

func TestFileVerifierFindsNewKeysAtMostOnceASecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	clock := now
	v, err := access.NewFileVerifier(path, func() time.Time { return clock })
	if err != nil {
		t.Fatalf("a file that is not there yet: %v", err)
	}
	first, second := newMinter(t, fixed), newMinter(t, fixed)
	if _, err := v.Verify(mint(t, first, capability())); err == nil {
		t.Fatal("verified without a key")
	}
	write := func(m *access.Minter) {
		if err := m.KeySet().WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	if _, err := v.Verify(mint(t, first, capability())); err == nil {
		t.Error("the file was read again within a second")
	}
	clock = clock.Add(time.Second)
	if _, err := v.Verify(mint(t, first, capability())); err != nil {
		t.Errorf("after a second: %v", err)
	}
	write(second)
	clock = clock.Add(time.Second)
	if _, err := v.Verify(mint(t, second, capability())); err != nil {
		t.Errorf("after the key changed: %v", err)
	}
	if _, err := v.Verify(mint(t, first, capability())); err == nil {
		t.Error("a key that was taken out of the file still verifies")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := access.NewFileVerifier(path, nil); err == nil {
		t.Error("a broken file was taken at start")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode of the key set: %v, %v", info.Mode(), err)
	}
}

func TestLoadOrCreateKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "mint.pem")
	keys := make([]ed25519.PrivateKey, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = access.LoadOrCreateKey(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if !key.Equal(keys[0]) {
			t.Fatal("replicas that start together have different keys")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := access.LoadOrCreateKey(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := access.LoadOrCreateKey(path); err == nil {
		t.Error("a broken key was replaced or taken")
	}
}

func TestAttach(t *testing.T) {
	m := newMinter(t, fixed)
	before := identity.Identity{Tenant: "x", Agent: "x", User: "x", RequestID: "r", Effect: "e", Sandbox: "sb"}
	c := capability()
	c.Identity.Agent = "child"
	ctx, err := m.Attach(identity.NewContext(t.Context(), before), c)
	if err != nil {
		t.Fatal(err)
	}
	want := c.Identity
	want.RequestID, want.Effect, want.Sandbox = "r", "e", "sb"
	if got, _ := identity.FromContext(ctx); got != want {
		t.Errorf("identity %+v, want %+v", got, want)
	}
	if b, err := identity.BucketFromContext(ctx); err != nil || b != c.Bucket {
		t.Errorf("bucket %v, %v", b, err)
	}
	if _, err := access.NewVerifier(m.KeySet(), fixed).Verify(access.TokenFromContext(ctx)); err != nil {
		t.Error(err)
	}
	c.Verbs = []string{"*"}
	if _, err := m.Attach(t.Context(), c); err == nil {
		t.Error("attached a capability that cannot be minted")
	}
}
