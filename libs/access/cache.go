package access

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxVerified bounds the capabilities that a verifier remembers: some hundred bytes each.
const maxVerified = 1024

// verified remembers capabilities whose signature was checked: a run sends the same token with every call, and the check
// costs more than the rest of a call in memory. It may be used by many goroutines.
type verified struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]Capability
}

// get returns the capability of a token that was verified before and may still be used at that time.
func (v *verified) get(token string, now time.Time) (Capability, bool) {
	key := sha256.Sum256([]byte(token))
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.known[key]
	if ok && now.After(c.Expiry) {
		delete(v.known, key)
		return Capability{}, false
	}
	return c, ok
}

// put remembers a capability. When the bound is reached, all are forgotten: they live for minutes anyway.
func (v *verified) put(token string, c Capability) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= maxVerified {
		v.known = make(map[[sha256.Size]byte]Capability)
	}
	v.known[sha256.Sum256([]byte(token))] = c
}

// forget is for a change of keys: what an old key signed must be checked again.
func (v *verified) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = nil
}
