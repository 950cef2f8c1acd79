// Package rpc serves gantry.memory.v1.MemoryService: it turns requests into calls of package memory and answers into messages, and decides nothing.
package rpc

import (
	"google.golang.org/grpc"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

// Server implements the service.
type Server struct {
	memoryv1.UnimplementedMemoryServiceServer
	memory *memory.Service
}

var _ memoryv1.MemoryServiceServer = (*Server)(nil)

// NewServer makes a server over the logic.
func NewServer(m *memory.Service) *Server { return &Server{memory: m} }

// Register adds the service to a server.
func (s *Server) Register(r grpc.ServiceRegistrar) { memoryv1.RegisterMemoryServiceServer(r, s) }
