package access

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// reloadInterval is how often an unknown key id may make a verifier read its file again.
const reloadInterval = time.Second

// Verifier checks capabilities against the public keys of minters. It may be used by many goroutines.
type Verifier struct {
	keys   *KeySet
	path   string
	now    func() time.Time
	parser *jwt.Parser
	known  verified

	mu       sync.Mutex
	loadedAt time.Time
}

// NewVerifier returns a verifier with keys in memory. A nil clock is the real one.
func NewVerifier(keys *KeySet, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{keys: keys, now: now, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(CapabilityIssuer), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now),
	)}
}

// NewFileVerifier returns a verifier with the keys of a file ([KeySet.WriteFile]). The file need not exist yet: it is
// read when a capability with an unknown key id comes, at most once a second, so a new key is found without a restart.
// A file that is there and cannot be read is an error.
func NewFileVerifier(path string, now func() time.Time) (*Verifier, error) {
	v := NewVerifier(NewKeySet(), now)
	v.path = path
	if err := v.load(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return v, nil
}

// Verify returns the capability of a token; its slices are shared and not to be changed. The error is UNAUTHENTICATED
// with reason CREDENTIAL_EXPIRED or CREDENTIAL_INVALID.
func (v *Verifier) Verify(token string) (Capability, error) {
	if len(token) > MaxCapabilityBytes {
		return Capability{}, unauthenticated(ReasonCredentialInvalid,
			"the capability has %d bytes, at most %d are allowed", len(token), MaxCapabilityBytes)
	}
	if c, ok := v.known.get(token, v.now()); ok {
		return c, nil
	}
	var claims capabilityClaims
	if _, err := v.parser.ParseWithClaims(token, &claims, v.key); err != nil {
		return Capability{}, tokenError("capability", err)
	}
	c, err := claims.capability()
	if err != nil {
		return Capability{}, unauthenticated(ReasonCredentialInvalid, "the capability is signed and makes no sense: %w", err)
	}
	v.known.put(token, c)
	return c, nil
}

// key returns the key that a token names.
func (v *Verifier) key(t *jwt.Token) (any, error) {
	kid, _ := t.Header["kid"].(string)
	if key, ok := v.keys.Lookup(kid); ok {
		return key, nil
	}
	if v.mayReload() {
		if err := v.load(); err != nil {
			return nil, err
		}
		if key, ok := v.keys.Lookup(kid); ok {
			return key, nil
		}
	}
	return ed25519.PublicKey(nil), errors.New("access: unknown key id")
}

// mayReload limits the rate at which strangers can make us read the file.
func (v *Verifier) mayReload() bool {
	if v.path == "" {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if since := now.Sub(v.loadedAt); since >= 0 && since < reloadInterval {
		return false
	}
	v.loadedAt = now
	return true
}

func (v *Verifier) load() error {
	data, err := os.ReadFile(v.path)
	if err != nil {
		return fmt.Errorf("access: key set of capabilities: %w", err)
	}
	if err := json.Unmarshal(data, v.keys); err != nil {
		return fmt.Errorf("access: key set of capabilities %s: %w", v.path, err)
	}
	v.known.forget()
	return nil
}

// isCapability says whether a bearer token claims to be a capability. It is not verified yet.
func isCapability(token string) bool {
	var claims jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	return err == nil && claims.Issuer == CapabilityIssuer
}

// tokenError maps the errors of the JWT library. Their text stays in the log.
func tokenError(kind string, err error) error {
	if errors.Is(err, jwt.ErrTokenExpired) {
		return unauthenticated(ReasonCredentialExpired, "the %s has expired: %w", kind, err)
	}
	return unauthenticated(ReasonCredentialInvalid, "the %s does not verify: %w", kind, err)
}
