// Package supervisor is the process that stands between the service and one sandbox, and outlives the service.
//
// It owns what must not be lost when the service is replaced or killed: the process tree (through a [Spawner]), the output of every exec, the exit
// statuses, and the records by effect id. The service talks to it over a Unix socket in the directory of the instance, one connection a request; a
// connection that ends means only that somebody stopped listening.
//
// The protocol is versioned, because a new service adopts supervisors that an older one started: fields are only ever added.
package supervisor
