// Package sandbox is the domain of the sandbox service: isolated processes of one bucket, and their files.
//
// Words: a driver makes sandboxes on this machine; an instance is one live sandbox; a generation counts the instances that a bucket has had;
// a command is what a caller asks to run and an exec is that command running (or having run) under an id; a lease is the right of one holder to use an
// instance for a while; the fencing token orders instances of a bucket, so that a holder of an older one is refused; a snapshot is the workspace at
// one moment, kept by a [SnapshotStore].
//
// The package knows no gRPC and no kernel. Drivers are in ../backend, the process that outlives the service in ../supervisor.
package sandbox
