package gateway

import "google.golang.org/grpc"

// Dial connects to the services that the settings name. Connections are made when they are first used, so services may start in any order.
func Dial(cfg Config, dial func(address string) (*grpc.ClientConn, error)) (Deps, error) {
	var deps Deps
	threads := cfg.Threads
	if threads == "" {
		threads = cfg.Workspace
	}
	for address, conn := range map[*string]*grpc.ClientConnInterface{
		&cfg.Orchestrator: &deps.Orchestrator, &cfg.Workspace: &deps.Workspace, &threads: &deps.Threads,
		&cfg.Memory: &deps.Memory, &cfg.Sandbox: &deps.Sandbox, &cfg.Tasks: &deps.Tasks,
	} {
		c, err := dial(*address)
		if err != nil {
			return Deps{}, err
		}
		*conn = c
	}
	return deps, nil
}
