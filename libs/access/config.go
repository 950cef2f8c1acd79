package access

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gantry-agents/gantry/libs/config"
)

// Mode is how clients prove who they are.
type Mode string

const (
	// ModeNone trusts whoever can connect. Only for loopback and memory: servers refuse other addresses.
	ModeNone Mode = "none"
	// ModeJWT asks clients for a JWT that is signed with a configured key.
	ModeJWT Mode = "jwt"
)

// minHMACBytes is the least length of a shared secret: as long as the hash.
const minHMACBytes = 32

// Config holds the settings of authentication. Programs embed it with the prefix "auth-".
type Config struct {
	Mode         Mode          `help:"How clients prove who they are: none (loopback and memory only) or jwt." enum:"none,jwt" default:"none"`
	JWTAlgorithm string        `name:"jwt-algorithm" help:"Algorithm of the clients' tokens." enum:"HS256,EdDSA,RS256" default:"EdDSA"`
	JWTKey       config.Secret `name:"jwt-key" help:"Key of the clients' tokens: the shared secret for HS256, a public key in PEM form otherwise."`
	JWTKeyFile   string        `name:"jwt-key-file" help:"File with the key, instead of the setting above."`
	JWTIssuer    string        `name:"jwt-issuer" help:"Issuer that tokens must name. Empty: any."`
	JWTAudience  string        `name:"jwt-audience" help:"Audience that tokens must name. Empty: any."`
	KeySetFile   string        `name:"capability-keys" help:"File with the public keys of the orchestrator's capabilities. Empty: only keys handed over in the process."`
}

// Validate checks the settings against each other, and that the key can be read.
func (c Config) Validate() error {
	switch c.Mode {
	case ModeNone, "":
		return nil
	case ModeJWT:
		_, err := c.clientKey()
		return err
	}
	return fmt.Errorf("access: mode %q is not one of none, jwt", c.Mode)
}

// clientKey reads and checks the key of the clients' tokens.
func (c Config) clientKey() (any, error) {
	data := []byte(c.JWTKey.Reveal())
	switch {
	case len(data) > 0 && c.JWTKeyFile != "":
		return nil, errors.New("access: both auth-jwt-key and auth-jwt-key-file are set")
	case c.JWTKeyFile != "":
		var err error
		if data, err = os.ReadFile(c.JWTKeyFile); err != nil {
			return nil, fmt.Errorf("access: auth-jwt-key-file: %w", err)
		}
	case len(data) == 0:
		return nil, errors.New("access: mode jwt needs auth-jwt-key or auth-jwt-key-file")
	}
	if c.JWTAlgorithm == jwt.SigningMethodHS256.Alg() {
		if len(data) < minHMACBytes {
			return nil, fmt.Errorf("access: the HS256 secret has %d bytes, at least %d are needed", len(data), minHMACBytes)
		}
		return data, nil
	}
	return publicKey(data, c.JWTAlgorithm)
}

// publicKey reads a PEM public key and checks that it fits the algorithm.
func publicKey(data []byte, algorithm string) (any, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("access: the key of the clients' tokens is not in PEM form")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("access: the key of the clients' tokens: %w", err)
	}
	switch parsed.(type) {
	case ed25519.PublicKey:
		if algorithm == jwt.SigningMethodEdDSA.Alg() {
			return parsed, nil
		}
	case *rsa.PublicKey:
		if algorithm == jwt.SigningMethodRS256.Alg() {
			return parsed, nil
		}
	}
	return nil, fmt.Errorf("access: a key of type %T does not fit the algorithm %s", parsed, algorithm)
}
