package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// receive passes a download on: the file first, then its bytes, piece by piece. A download that breaks off is an error, and so is one whose bytes have not
// the SHA-256 of the file. An error of fn ends it.
func receive(ctx context.Context, files fsv1.FilesystemServiceClient, req *fsv1.DownloadRequest, header func(*fsv1.FileInfo) error, fn func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := files.Download(ctx, req)
	if err != nil {
		return err
	}
	var want string
	var got int64
	sum := sha256.New()
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return problem(errdefs.ErrUnavailable, "STREAM_BROKEN", "the download of %s broke off", req.GetPath())
		}
		if err != nil {
			return err
		}
		switch part := msg.GetPart().(type) {
		case *fsv1.DownloadResponse_Header:
			want = part.Header.GetSha256()
			err = header(part.Header)
		case *fsv1.DownloadResponse_Chunk:
			got += int64(len(part.Chunk))
			sum.Write(part.Chunk)
			err = fn(part.Chunk)
		case *fsv1.DownloadResponse_End:
			whole := req.GetOffsetBytes() == 0
			if got != part.End.GetSentBytes() || whole && want != "" && want != hex.EncodeToString(sum.Sum(nil)) {
				return problem(errdefs.ErrDataLoss, "CHECKSUM_MISMATCH", "%s did not arrive as it is kept: try again", req.GetPath())
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
