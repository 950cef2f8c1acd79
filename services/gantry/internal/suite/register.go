package suite

import "google.golang.org/grpc"

// filesystem is the one service that several implement.
const filesystem = "gantry.filesystem.v1.FilesystemService"

// without leaves one service out of a registration.
type without struct {
	grpc.ServiceRegistrar
	name string
}

// RegisterService implements grpc.ServiceRegistrar.
func (w without) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if desc.ServiceName != w.name {
		w.ServiceRegistrar.RegisterService(desc, impl)
	}
}

// apartFromFiles registers a service without its FilesystemService.
func apartFromFiles(register func(grpc.ServiceRegistrar)) func(grpc.ServiceRegistrar) {
	return func(r grpc.ServiceRegistrar) { register(without{r, filesystem}) }
}
