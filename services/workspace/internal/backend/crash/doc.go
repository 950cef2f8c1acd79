// Package crash tests what the backends that live in the service's own process keep when that process is killed.
package crash
