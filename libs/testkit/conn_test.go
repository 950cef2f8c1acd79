package testkit

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func TestServe(t *testing.T) {
	conn := Serve(t, func(r grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(r, health.NewServer()) })
	got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("Check = %v, %v", got, err)
	}
}
