package orchestrator

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
)

// TestOthersVerifyWithTheWrittenKeySet mints as this service does and verifies as the others do.
func TestOthersVerifyWithTheWrittenKeySet(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig()
	cfg.CapabilityKey, cfg.CapabilityKeySet = filepath.Join(dir, "own", "key.pem"), filepath.Join(dir, "keys.json")
	dial := func(address string) (*grpc.ClientConn, error) {
		conn, err := client.Dial(address, nil)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		return conn, err
	}
	deps, err := Dial(cfg, dial)
	if err != nil {
		t.Fatal(err)
	}
	id := identity.Identity{Tenant: "acme", Agent: "coder", User: "ana"}
	bucket, err := id.Bucket()
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := deps.Minter.Mint(access.Capability{Identity: id, Bucket: bucket, Verbs: []string{"fs.read"}})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := access.NewFileVerifier(cfg.CapabilityKeySet, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(token); err != nil {
		t.Errorf("the written set does not verify what is minted: %v", err)
	}
	cfg.CapabilityKeySet = filepath.Join(dir, "missing", "keys.json")
	if _, err := Dial(cfg, dial); err == nil || !strings.Contains(err.Error(), "capability-key-set") {
		t.Errorf("a folder that is not there: %v", err)
	}
	if _, err := Dial(cfg, func(string) (*grpc.ClientConn, error) { return nil, errors.New("no") }); err == nil {
		t.Error("a failed dial passes")
	}
}
