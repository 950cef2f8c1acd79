package access

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// KeySet is a set of public keys of minters, by key id. It may be used by many goroutines.
type KeySet struct {
	mu   sync.RWMutex
	keys map[string]ed25519.PublicKey
}

// NewKeySet returns a set of these keys.
func NewKeySet(keys ...ed25519.PublicKey) *KeySet {
	s := &KeySet{keys: make(map[string]ed25519.PublicKey)}
	for _, key := range keys {
		s.keys[KeyID(key)] = key
	}
	return s
}

// KeyID returns the id of a public key: the first 16 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Lookup returns the key of that id.
func (s *KeySet) Lookup(kid string) (ed25519.PublicKey, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	key, ok := s.keys[kid]
	return key, ok
}

// jwks is the form of a key set in a file: JSON Web Key Set, RFC 7517 and 8037.
type jwks struct {
	Keys []jwk `json:"keys"`
}

type jwk struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	Use       string `json:"use,omitempty"`
	Algorithm string `json:"alg,omitempty"`
	KeyID     string `json:"kid"`
	X         string `json:"x"`
}

// MarshalJSON writes the set as a JSON Web Key Set.
func (s *KeySet) MarshalJSON() ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := jwks{Keys: []jwk{}}
	for kid, key := range s.keys {
		out.Keys = append(out.Keys, jwk{
			KeyType: "OKP", Curve: "Ed25519", Use: "sig", Algorithm: "EdDSA", KeyID: kid, X: base64.RawURLEncoding.EncodeToString(key),
		})
	}
	return json.Marshal(out)
}

// UnmarshalJSON replaces the set by the Ed25519 keys of a JSON Web Key Set. Keys of other kinds are skipped.
func (s *KeySet) UnmarshalJSON(data []byte) error {
	var in jwks
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	keys := make(map[string]ed25519.PublicKey, len(in.Keys))
	for _, k := range in.Keys {
		if k.KeyType != "OKP" || k.Curve != "Ed25519" {
			continue
		}
		raw, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(raw) != ed25519.PublicKeySize || k.KeyID == "" {
			return fmt.Errorf("access: key %q of the key set is not an Ed25519 key with an id", k.KeyID)
		}
		keys[k.KeyID] = raw
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
	return nil
}

// WriteFile writes the set to a file that others may read, in one step, so that a reader never sees half of it.
func (s *KeySet) WriteFile(path string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeAtomically(path, data, 0o644)
}

// LoadOrCreateKey reads the private key of a minter from a PEM file, or makes one there, readable by the owner alone. A
// file that others can read is refused.
func LoadOrCreateKey(path string) (ed25519.PrivateKey, error) {
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	_, created, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(created)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("access: folder of the minting key: %w", err)
	}
	// Another replica may be doing the same: who links first wins, and everybody uses what is there.
	if err := writeOnce(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, fmt.Errorf("access: write the minting key: %w", err)
	}
	return loadKey(path)
}

func loadKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("access: minting key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("access: minting key %s has mode %04o, others can use it; it must be 0600", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("access: minting key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("access: minting key %s is not in PEM form", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("access: minting key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("access: minting key %s is not an Ed25519 key", path)
	}
	return key, nil
}

// writeOnce creates the file with its whole content, or leaves alone what is there.
func writeOnce(path string, data []byte) error {
	temp, err := writeTemp(path, data, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// writeAtomically replaces the file.
func writeAtomically(path string, data []byte, mode fs.FileMode) error {
	temp, err := writeTemp(path, data, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

// writeTemp writes a finished temporary file beside path and returns its name.
func writeTemp(path string, data []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, writeErr := f.Write(data)
	return f.Name(), errors.Join(writeErr, f.Chmod(mode), f.Sync(), f.Close())
}
