package localstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// PutBlob implements [sandbox.SnapshotStore].
func (s *Store) PutBlob(ctx context.Context, bucket string, content io.Reader) (b sandbox.Blob, err error) {
	dir := s.path(bucket, "!blobs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return b, storeError(err)
	}
	temp := filepath.Join(dir, "!"+rand.Text())
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return b, storeError(err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(temp)
	}()
	sum := sha256.New()
	if b.Size, err = io.Copy(io.MultiWriter(f, sum), &ctxReader{ctx, content}); err != nil {
		return sandbox.Blob{}, storeError(err)
	}
	b.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if err := errors.Join(f.Sync(), os.Rename(temp, filepath.Join(dir, b.SHA256)), syncDir(dir)); err != nil {
		return sandbox.Blob{}, storeError(err)
	}
	return b, nil
}

// ctxReader stops a copy when the caller is gone.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// OpenBlob implements [sandbox.SnapshotStore].
func (s *Store) OpenBlob(_ context.Context, bucket, sum string) (io.ReadCloser, error) {
	if !idPattern.MatchString(sum) {
		return nil, damaged("a blob has no valid name")
	}
	f, err := os.Open(s.path(bucket, "!blobs", sum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged("a blob of the snapshot is missing")
	}
	if err != nil {
		return nil, storeError(err)
	}
	return &blobReader{File: f, sum: sha256.New(), want: sum}, nil
}

// blobReader checks the hash when the end is reached.
type blobReader struct {
	*os.File
	sum  hash.Hash
	want string
}

// WriteTo would bypass the check if it came from the file.
func (b *blobReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{b})
}

func (b *blobReader) Read(p []byte) (int, error) {
	n, err := b.File.Read(p)
	b.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(b.sum.Sum(nil)) != b.want {
		return n, damaged("a blob of the snapshot has other bytes than were stored")
	}
	return n, err
}
