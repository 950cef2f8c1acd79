package rpc

import (
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
)

// exportBytes is the size from which lines of an export are sent.
const exportBytes = 128 << 10

// Export streams all memory.
func (s *Server) Export(req *memoryv1.ExportRequest, stream grpc.ServerStreamingServer[memoryv1.ExportResponse]) error {
	var lines strings.Builder
	send := func() error {
		if lines.Len() == 0 {
			return nil
		}
		err := stream.Send(&memoryv1.ExportResponse{Item: &memoryv1.ExportResponse_Lines{Lines: lines.String()}})
		lines.Reset()
		return err
	}
	e, err := s.memory.Export(stream.Context(), req.GetIncludeVersions(), func(line string) error {
		if lines.Len()+len(line) > exportBytes {
			if err := send(); err != nil {
				return err
			}
		}
		lines.WriteString(line)
		return nil
	})
	if err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	return stream.Send(&memoryv1.ExportResponse{Item: &memoryv1.ExportResponse_End{End: &memoryv1.ExportEnd{
		Facts: int64(e.Facts), Files: int64(e.Files), Sha256: e.SHA256,
	}}})
}

// Import adds what Export gave.
func (s *Server) Import(stream grpc.ClientStreamingServer[memoryv1.ImportRequest, memoryv1.ImportResponse]) error {
	r, err := s.memory.Import(stream.Context(), func() (string, bool, error) {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return "", false, nil
		}
		return req.GetLines(), true, err
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&memoryv1.ImportResponse{Added: int64(r.Added), Duplicates: int64(r.Duplicates), Files: int64(r.Files), Cursor: r.Cursor})
}
