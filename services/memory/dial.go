package memory

import (
	"cmp"

	"google.golang.org/grpc"
)

// Dial connects to the services that the settings name. Who gave the function closes the connections.
func Dial(cfg Config, dial func(address string) (*grpc.ClientConn, error)) (Deps, error) {
	files, err := dial(cfg.Filesystem)
	if err != nil {
		return Deps{}, err
	}
	deps := Deps{Filesystem: files, Threads: files}
	if address := cmp.Or(cfg.Threads, cfg.Filesystem); address != cfg.Filesystem {
		if deps.Threads, err = dial(address); err != nil {
			return Deps{}, err
		}
	}
	return deps, nil
}
