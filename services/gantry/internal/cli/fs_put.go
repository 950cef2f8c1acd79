package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// chunkBytes is the size of a piece of an upload.
const chunkBytes = 256 << 10

// FsPut writes.
type FsPut struct {
	Target
	IntoLayer
	Parallel
	Path       string `arg:"" help:"File to write; with -r the directory to write into."`
	From       string `arg:"" optional:"" default:"-" help:"File of this machine, or with -r a directory; - is the standard input."`
	CreateOnly bool   `name:"create-only" aliases:"new" help:"Only where there is no such file." xor:"condition"`
	IfRevision string `name:"if-revision" help:"Only if the file is still at this revision." xor:"condition"`
	Recursive  bool   `short:"r" help:"Send a directory with all below it. Links out of it are not followed."`
}

// Help shows an example.
func (FsPut) Help() string {
	return example("gantry fs put report.pdf ./report.pdf --user ana", "date | gantry fs put now.txt --user ana", "gantry fs put -r knowledge ./docs --agent coder --scope agent")
}

// header is what the upload of a file begins with.
func (c *FsPut) header(path string) *fsv1.UploadHeader {
	head := &fsv1.UploadHeader{Path: path, Layer: c.layer(), IfRevision: c.IfRevision}
	switch {
	case c.CreateOnly:
		head.Mode = fsv1.WriteMode_WRITE_MODE_CREATE
	case c.IfRevision != "":
		head.Mode = fsv1.WriteMode_WRITE_MODE_IF_REVISION
	}
	return head
}

// Run uploads in pieces; nothing is visible before all has arrived and been checked.
func (c *FsPut) Run(ctx context.Context, env *Env) error {
	if c.Recursive {
		return c.tree(ctx, env)
	}
	head, in, size := c.header(c.Path), env.In, int64(0)
	if c.From != "-" {
		f, err := os.Open(c.From)
		if err != nil {
			return err
		}
		defer f.Close()
		if size, err = describe(head, f); err != nil {
			return err
		}
		in = f
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		progress := c.progress(env)
		progress.expect(size)
		got, err := send(ctx, clients.Files, head, meter{in, progress})
		progress.clear()
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("%s  %d bytes  %s", pathText(got.GetInfo()), got.GetInfo().GetSizeBytes(), got.GetInfo().GetSha256())
		return nil
	})
}

// describe fills in what is known of a file before it is sent: its hash, so that the server refuses what did not arrive or changed meanwhile, and whether it can be executed.
func describe(head *fsv1.UploadHeader, f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, problem(errdefs.ErrFailedPrecondition, "IS_DIRECTORY", "%s is a directory: -r sends it with all below it", f.Name())
	}
	if !info.Mode().IsRegular() {
		return 0, nil // a pipe can't be read twice
	}
	sum := sha256.New()
	if size, err = io.Copy(sum, f); err != nil {
		return 0, err
	}
	if info.Mode()&0o111 != 0 {
		head.FileMode = 0o755
	}
	head.Sha256 = hex.EncodeToString(sum.Sum(nil))
	_, err = f.Seek(0, io.SeekStart)
	return size, err
}

// send uploads what in holds. Where reading ends with an error, the upload is given up, and the server keeps nothing of it.
func send(ctx context.Context, files fsv1.FilesystemServiceClient, head *fsv1.UploadHeader, in io.Reader) (*fsv1.UploadResponse, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	stream, err := files.Upload(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Header{Header: head}})
	sum := sha256.New()
	for err == nil {
		buf := make([]byte, chunkBytes) // gRPC may still be sending the piece before
		n, readErr := io.ReadFull(in, buf)
		if n > 0 {
			sum.Write(buf[:n])
			err = stream.Send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Chunk{Chunk: buf[:n]}})
		}
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			break
		}
		if readErr != nil {
			return nil, readErr
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the server has answered, and says why below
		return nil, err
	}
	got, err := stream.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	if want := hex.EncodeToString(sum.Sum(nil)); got.GetInfo().GetSha256() != want {
		return nil, problem(errdefs.ErrDataLoss, "CHECKSUM_MISMATCH", "%s did not arrive as it was sent", head.GetPath())
	}
	return got, nil
}
