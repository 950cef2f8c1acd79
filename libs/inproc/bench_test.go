package inproc_test

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
)

// BenchmarkEcho compares a unary call through the full chain in memory and over TCP, with and without a capability,
// with bare gRPC over TCP.
func BenchmarkEcho(b *testing.B) {
	minter, err := access.NewMinter(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	id := identity.Identity{Tenant: "t", Agent: "coder", User: "ana", Session: "s"}
	bucket, err := id.Bucket()
	if err != nil {
		b.Fatal(err)
	}
	plain := identity.NewContext(b.Context(), id)
	token, _, err := minter.Mint(access.Capability{Identity: id, Bucket: bucket, Verbs: []string{"fs.read"}})
	if err != nil {
		b.Fatal(err)
	}
	capable := access.NewTokenContext(plain, token)
	for _, address := range []string{"memory:echo", "127.0.0.1:0"} {
		c := chained(b, address, minter)
		b.Run(address+"/chain", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := stat(plain, c); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(address+"/chain+capability", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := stat(capable, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	c := bare(b)
	b.Run("127.0.0.1:0/bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := stat(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// chained serves and dials as services do.
func chained(b *testing.B, address string, minter *access.Minter) filesystemv1.FilesystemServiceClient {
	b.Helper()
	auth, err := access.New(access.Config{}, access.Options{KeySet: minter.KeySet()})
	if err != nil {
		b.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		b.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: address}, chain, network)
	if err != nil {
		b.Fatal(err)
	}
	filesystemv1.RegisterFilesystemServiceServer(s.Registrar(), fakefs.Echo())
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	conn, err := client.Dial(s.Addr(), network)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		s.Stop(b.Context())
	})
	return filesystemv1.NewFilesystemServiceClient(conn)
}

// bare serves and dials with gRPC alone.
func bare(b *testing.B) filesystemv1.FilesystemServiceClient {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer()
	filesystemv1.RegisterFilesystemServiceServer(s, fakefs.Echo())
	go s.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		s.Stop()
	})
	return filesystemv1.NewFilesystemServiceClient(conn)
}
