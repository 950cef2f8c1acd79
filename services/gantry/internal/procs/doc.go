// Package procs runs the services as processes on the loopback, each with a data directory of its own: the suite as it is
// deployed, on one machine. End-to-end tests, the conformance run and the benchmark use it; `make up` does the same by script.
//
// On Linux the processes get a SIGTERM when the program that started them dies, however it dies.
package procs
