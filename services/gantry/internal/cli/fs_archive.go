package cli

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

// archive takes files one after the other.
type archive interface {
	// begin starts a file, whose bytes follow.
	begin(name string, info *fsv1.FileInfo) error
	write(chunk []byte) error
	close() error
}

func newArchive(format string, out io.Writer) archive {
	switch format {
	case "zip":
		return &zipArchive{zip: zip.NewWriter(out)}
	case "tar.gz":
		gz := gzip.NewWriter(out)
		return &tarArchive{tar: tar.NewWriter(gz), gz: gz}
	}
	return &tarArchive{tar: tar.NewWriter(out)}
}

type tarArchive struct {
	tar *tar.Writer
	gz  *gzip.Writer
}

func (a *tarArchive) begin(name string, info *fsv1.FileInfo) error {
	return a.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: info.GetSizeBytes(), Mode: int64(modeOf(info)), ModTime: info.GetModifyTime().AsTime(), Format: tar.FormatPAX,
	})
}

func (a *tarArchive) write(chunk []byte) error {
	_, err := a.tar.Write(chunk)
	return err
}

func (a *tarArchive) close() error {
	err := a.tar.Close()
	if a.gz != nil {
		err = errors.Join(err, a.gz.Close())
	}
	return err
}

type zipArchive struct {
	zip *zip.Writer
	now io.Writer
}

func (a *zipArchive) begin(name string, info *fsv1.FileInfo) (err error) {
	head := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: info.GetModifyTime().AsTime()}
	head.SetMode(modeOf(info))
	a.now, err = a.zip.CreateHeader(head)
	return err
}

func (a *zipArchive) write(chunk []byte) error {
	_, err := a.now.Write(chunk)
	return err
}

func (a *zipArchive) close() error { return a.zip.Close() }

func modeOf(info *fsv1.FileInfo) fs.FileMode {
	if mode := fs.FileMode(info.GetMode()) & fs.ModePerm; mode != 0 {
		return mode
	}
	return 0o644
}
