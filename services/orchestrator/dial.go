package orchestrator

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
)

// Carry returns the connection as one whose calls carry a capability for the identity of their context, for a service in the same process that calls another one on
// behalf of stored identities, as the task service does when it delivers a result. Without a minter it is the connection as it is.
func Carry(conn grpc.ClientConnInterface, minter *access.Minter) grpc.ClientConnInterface {
	return credential.Conn(conn, credential.NewIssuer(minter, time.Now))
}

// Dial connects to the services that the settings name, and reads the key of capabilities. Who gave the function closes the connections.
func Dial(cfg Config, dial func(address string) (*grpc.ClientConn, error)) (Deps, error) {
	var deps Deps
	for _, to := range []struct {
		address string
		conn    *grpc.ClientConnInterface
	}{
		{cfg.Workspace, &deps.Workspace}, {cfg.Threads, &deps.Threads}, {cfg.Memory, &deps.Memory}, {cfg.Sandbox, &deps.Sandbox}, {cfg.Tasks, &deps.Tasks},
	} {
		if to.address == "" || to.address == None {
			continue
		}
		conn, err := dial(to.address)
		if err != nil {
			return Deps{}, err
		}
		*to.conn = conn
	}
	deps.DialFiles = func(address string) (grpc.ClientConnInterface, error) { return dial(address) }
	if cfg.CapabilityKey == "" {
		return deps, nil
	}
	key, err := access.LoadOrCreateKey(cfg.CapabilityKey)
	if err != nil {
		return Deps{}, err
	}
	if deps.Minter, err = access.NewMinter(key, nil); err != nil || cfg.CapabilityKeySet == "" {
		return deps, err
	}
	if err := deps.Minter.KeySet().WriteFile(cfg.CapabilityKeySet); err != nil {
		return Deps{}, fmt.Errorf("orchestrator: capability-key-set: %w", err)
	}
	return deps, nil
}
