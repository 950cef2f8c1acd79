package cli

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// item is a file to be imported.
type item struct {
	name string // relative, checked
	size int64
	mode uint32 // 0: the usual one
	open func() (io.ReadCloser, error)
}

// source gives files one after the other; the content of one can be read until the next is given.
type source struct {
	each  func(ctx context.Context, tally *Tally, hand func(item) error) error
	close func() error
}

// openSource opens a directory or an archive.
func openSource(from string, in io.Reader) (source, error) {
	if from == "-" {
		return tarSource(in, func() error { return nil }), nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return source{}, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(from)
		if err != nil {
			return source{}, err
		}
		return dirSource(root), nil
	}
	f, err := os.Open(from)
	if err != nil {
		return source{}, err
	}
	switch archiveFormat(from) {
	case "zip":
		z, err := zip.NewReader(f, info.Size())
		if err != nil {
			return source{}, errors.Join(unreadable(from, err), f.Close())
		}
		return zipSource(z, f.Close), nil
	case "tar.gz":
		gz, err := gzip.NewReader(f)
		if err != nil {
			return source{}, errors.Join(unreadable(from, err), f.Close())
		}
		return tarSource(gz, f.Close), nil
	case "tar":
		return tarSource(f, f.Close), nil
	}
	return source{}, errors.Join(problem(errdefs.ErrInvalidArgument, "FORMAT_UNKNOWN", "%s is no directory, .tar, .tar.gz, .tgz or .zip: gantry fs put writes a single file", from), f.Close())
}

func unreadable(name string, err error) error {
	return problem(errdefs.ErrInvalidArgument, "FORMAT_UNKNOWN", "%s can't be read as what its name says: %s", name, err)
}

func dirSource(root *os.Root) source {
	return source{close: root.Close, each: func(ctx context.Context, tally *Tally, hand func(item) error) error {
		return localFiles(ctx, root, tally, func(name string) error {
			info, err := root.Stat(name)
			if err != nil {
				tally.fail(name, err)
				return nil
			}
			return hand(item{name, info.Size(), importMode(info.Mode()), func() (io.ReadCloser, error) { return root.Open(name) }})
		})
	}}
}

func tarSource(in io.Reader, done func() error) source {
	return source{close: done, each: func(ctx context.Context, tally *Tally, hand func(item) error) error {
		r := tar.NewReader(in)
		for ctx.Err() == nil {
			head, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return unreadable("the archive", err)
			}
			if head.Typeflag == tar.TypeDir || head.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			name := strings.TrimPrefix(head.Name, "./")
			why := refused(name, head.FileInfo().Mode())
			if head.Typeflag != tar.TypeReg && why == "" {
				why = "no regular file" // a hard link looks like one by its mode
			}
			if why != "" {
				tally.leave(head.Name, why)
				continue
			}
			if err := hand(item{name, head.Size, importMode(head.FileInfo().Mode()), func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	}}
}

func zipSource(z *zip.Reader, done func() error) source {
	return source{close: done, each: func(ctx context.Context, tally *Tally, hand func(item) error) error {
		for _, f := range z.File {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if strings.HasSuffix(f.Name, "/") {
				continue
			}
			if why := refused(f.Name, f.Mode()); why != "" {
				tally.leave(f.Name, why)
				continue
			}
			if err := hand(item{f.Name, int64(f.UncompressedSize64), importMode(f.Mode()), f.Open}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// refused says why an entry of an archive is left out. Names are taken as they are or not at all.
func refused(name string, mode fs.FileMode) string {
	if !mode.IsRegular() {
		return "no regular file"
	}
	if localName("linux", name) != nil {
		return "its name is not a path below the directory"
	}
	return ""
}

func importMode(mode fs.FileMode) uint32 {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0
}
