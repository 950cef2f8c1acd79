package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// spoolMemory is how much of an upload is kept in memory; more goes to a file. An upload is written into the sandbox only when it is complete, so
// that a slow caller does not hold up snapshots.
const spoolMemory = 1 << 20

// maxUpload bounds one uploaded file.
const maxUpload = 4 << 30

// Upload implements FilesystemService.
func (f *Files) Upload(stream grpc.ClientStreamingServer[fspb.UploadRequest, fspb.UploadResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	h := first.GetHeader()
	if h == nil {
		return errdefs.New(errdefs.ErrInvalidArgument, fsops.Domain, fsops.ReasonPathInvalid, "the first message must be the header")
	}
	if _, err := fsops.ParseFilePath(h.GetPath()); err != nil {
		return err
	}
	if _, err := parse(ctx, h.GetPath()); err != nil {
		return err
	}
	var sp spool
	defer sp.close()
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if req.GetHeader() != nil {
			return errdefs.New(errdefs.ErrInvalidArgument, fsops.Domain, fsops.ReasonPathInvalid, "there is a second header")
		}
		if err := sp.write(req.GetChunk()); err != nil {
			return err
		}
	}
	sum := hex.EncodeToString(sp.sum())
	if want := h.GetSha256(); want != "" && want != sum {
		return fsops.ErrChecksumMismatch(want, sum)
	}
	resp, err := f.store(ctx, h, &sp, sum)
	if err != nil {
		return err
	}
	return stream.SendAndClose(resp)
}

func (f *Files) store(ctx context.Context, h *fspb.UploadHeader, sp *spool, sum string) (*fspb.UploadResponse, error) {
	in, name, exists, err := f.writing(ctx, h.GetPath(), h.GetLayer())
	if err != nil {
		return nil, err
	}
	defer in.close()
	content, err := sp.reader()
	if err != nil {
		return nil, err
	}
	o := options(h.GetMode(), h.GetIfRevision(), h.GetFileMode())
	// What an effect id stands for is the header with the hash of the bytes.
	request := proto.CloneOf(h)
	request.Sha256 = sum
	return once(ctx, f, in, request, !o.CreateOnly && o.IfRevision == "", &fspb.UploadResponse{}, func() (*fspb.UploadResponse, error) {
		e, err := in.Tree.Write(ctx, name, content, o)
		if err != nil {
			return nil, err
		}
		return &fspb.UploadResponse{Info: info(e, sum), Created: !exists}, nil
	})
}

// spool keeps an upload until it is complete.
type spool struct {
	memory []byte
	file   *os.File
	size   int64
	hash   interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func (s *spool) write(p []byte) error {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	_, _ = s.hash.Write(p)
	if s.size += int64(len(p)); s.size > maxUpload {
		return fsops.ErrTooLarge(maxUpload, s.size)
	}
	if s.file == nil && len(s.memory)+len(p) <= spoolMemory {
		s.memory = append(s.memory, p...)
		return nil
	}
	if s.file == nil {
		file, err := os.CreateTemp("", "gantry-upload-")
		if err != nil {
			return fsops.ErrStoreReadOnly("no place for the upload")
		}
		_ = os.Remove(file.Name())
		s.file = file
		if _, err := file.Write(s.memory); err != nil {
			return fsops.ErrStoreReadOnly("no place for the upload")
		}
		s.memory = nil
	}
	if _, err := s.file.Write(p); err != nil {
		return fsops.ErrStoreReadOnly("no place for the upload")
	}
	return nil
}

func (s *spool) sum() []byte {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	return s.hash.Sum(nil)
}

func (s *spool) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.memory), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
