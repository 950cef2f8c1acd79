package run

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gantry-agents/gantry/libs/client"
)

// healthTimeout bounds the question whether a service serves.
const healthTimeout = 3 * time.Second

// askHealth asks the service that runs with the same settings whether it serves. Images hold nothing but the program, so the
// program is its own health check.
func askHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	conn, err := client.DialForeign(reachable(address), nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", address, err)
	}
	if got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%s is %s", address, strings.ToLower(got.GetStatus().String()))
	}
	return nil
}

// reachable turns an address to listen on at all interfaces into one to connect to.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
