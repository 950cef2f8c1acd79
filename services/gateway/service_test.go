package gateway_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/gateway"
)

func TestWithoutAuthenticationOnlyLoopbackIsServed(t *testing.T) {
	conn, err := inproc.New().Dial("nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, tt := range []struct {
		address       string
		authenticated bool
		refused       bool
	}{
		{"127.0.0.1:0", false, false}, {"[::1]:0", false, false}, {"localhost:0", false, false},
		{"0.0.0.0:0", false, true}, {":0", false, true}, {"[::]:0", false, true}, {"192.0.2.1:80", false, true},
		{"0.0.0.0:0", true, false},
	} {
		cfg := gateway.DefaultConfig()
		cfg.HTTPAddress = tt.address
		deps := gateway.Deps{Orchestrator: conn, Workspace: conn, Threads: conn, Memory: conn, Sandbox: conn, Tasks: conn, Authenticated: tt.authenticated}
		_, err := gateway.New(context.Background(), cfg, deps)
		if errors.Is(err, server.ErrOpenAddress) != tt.refused || !tt.refused && err != nil {
			t.Errorf("%s, authenticated %v: %v", tt.address, tt.authenticated, err)
		}
	}
}
