package e2e_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/services/gantry/e2e"
)

// TestOneProcess runs the suite against all services in this process.
func TestOneProcess(t *testing.T) {
	p := newInProcess(t)
	p.start(t)
	e2e.Run(t, e2e.Target{
		Conn:  func(service string) grpc.ClientConnInterface { return p.running.Conn(service) },
		Token: token,
		Restart: func(t *testing.T) {
			p.stop(t)
			p.start(t)
		},
	})
}

// TestSixProcesses runs the suite against six processes with separate data directories.
func TestSixProcesses(t *testing.T) {
	c := processes(t)
	e2e.Run(t, e2e.Target{
		Conn: c.Conn, Token: token,
		Restart: func(t *testing.T) {
			if err := c.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	})
}
