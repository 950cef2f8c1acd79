// Package fakefs is a FilesystemService whose answers a test makes up. The packages of libs are tested with it, because
// its methods declare access and rules for requests.
package fakefs

import (
	"context"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

// Server answers with its functions; what has none is UNIMPLEMENTED.
type Server struct {
	filesystemv1.UnimplementedFilesystemServiceServer
	// OnStat answers a unary call that needs the verb fs.read.
	OnStat func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error)
	// OnUpload answers a client stream that needs the verb fs.write.
	OnUpload func(grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]) error
	// OnWatch answers a server stream that needs the verb fs.read.
	OnWatch func(*filesystemv1.WatchRequest, grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error
}

// Echo returns a server whose Stat returns the path of the request.
func Echo() *Server {
	return &Server{OnStat: func(_ context.Context, r *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
		return &filesystemv1.StatResponse{Info: &filesystemv1.FileInfo{Path: r.GetPath()}}, nil
	}}
}

// Stat calls OnStat.
func (s *Server) Stat(ctx context.Context, r *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
	if s.OnStat == nil {
		return s.UnimplementedFilesystemServiceServer.Stat(ctx, r)
	}
	return s.OnStat(ctx, r)
}

// Upload calls OnUpload.
func (s *Server) Upload(stream grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]) error {
	if s.OnUpload == nil {
		return s.UnimplementedFilesystemServiceServer.Upload(stream)
	}
	return s.OnUpload(stream)
}

// Watch calls OnWatch.
func (s *Server) Watch(r *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
	if s.OnWatch == nil {
		return s.UnimplementedFilesystemServiceServer.Watch(r, stream)
	}
	return s.OnWatch(r, stream)
}
