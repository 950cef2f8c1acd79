package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FsExport writes everything out.
type FsExport struct {
	Target
	OneLayer
	Parallel
	To    string `arg:"" help:"Directory, or an archive: .tar, .tar.gz, .tgz or .zip. - is a tar on the standard output."`
	Path  string `arg:"" optional:"" help:"Only this directory. Names in the export are relative to it."`
	Force bool   `short:"f" help:"Replace files that are there."`
}

// Help shows an example.
func (FsExport) Help() string {
	return example("gantry fs export backup.tar.gz --user ana", "gantry fs export --layer bucket ./own --user ana", "gantry fs export - --user ana | tar tv") +
		"\n\nWithout --layer it is what the bucket sees, lower layers included. gantry fs import reads it again."
}

// Run writes a directory, or an archive as a stream.
func (c *FsExport) Run(ctx context.Context, env *Env) error {
	format := archiveFormat(c.To)
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		if format == "" {
			get := &FsGet{Target: c.Target, OneLayer: c.OneLayer, Parallel: c.Parallel, Path: c.Path, Force: c.Force, Recursive: true}
			return get.into(ctx, env, clients.Files, c.To, "exported")
		}
		if c.To == "-" {
			quiet := *env
			quiet.Out = env.Err // the standard output is the archive's
			return c.archive(ctx, &quiet, clients.Files, format, env.Out)
		}
		return c.archiveFile(ctx, env, clients.Files, format)
	})
}

// archiveFile writes an archive that appears when it is complete.
func (c *FsExport) archiveFile(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, format string) (err error) {
	if _, err := os.Lstat(c.To); err == nil && !c.Force {
		return problem(errdefs.ErrAlreadyExists, "FILE_EXISTS", "%s is there already: --force replaces it, another name keeps it", c.To)
	}
	f, err := os.CreateTemp(filepath.Dir(c.To), ".gantry-export-*")
	if err != nil {
		return err
	}
	failed := c.archive(ctx, env, files, format, f)
	var exit exitCode
	if failed != nil && !errors.As(failed, &exit) { // an archive that lacks some files, which were told, is better than none
		return errors.Join(failed, f.Close(), os.Remove(f.Name()))
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return errors.Join(os.Rename(f.Name(), c.To), failed)
}

// archive streams the files, one after the other. A file that is gone by the time it is its turn is told; one that breaks off ends the export.
func (c *FsExport) archive(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, format string, out io.Writer) error {
	progress := c.progress(env)
	defer progress.clear()
	tally := newTally(env, c.JSON, progress)
	w := newArchive(format, out)
	req := &fsv1.ListRequest{Path: c.Path, Recursive: true, Layer: c.layer(), PageSize: pageSize}
	err := bucketFiles(ctx, env, files, req, tally, func(from string) error {
		name := below(c.Path, from)
		if err := localName("linux", name); err != nil {
			tally.fail(from, err)
			return nil
		}
		begun, size := false, int64(0)
		err := receive(ctx, files, &fsv1.DownloadRequest{Path: from, Layer: c.layer()}, func(info *fsv1.FileInfo) error {
			begun, size = true, info.GetSizeBytes()
			return w.begin(name, info)
		}, func(chunk []byte) error {
			progress.add(len(chunk))
			return w.write(chunk)
		})
		switch {
		case err == nil:
			tally.done(size)
		case begun || hopeless(err):
			return err
		default:
			tally.fail(from, err)
		}
		return nil
	})
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
	return tally.end("exported")
}

// archiveFormat is the format that a name asks for; "" is a directory.
func archiveFormat(name string) string {
	lower := strings.ToLower(name)
	switch {
	case name == "-", strings.HasSuffix(lower, ".tar"):
		return "tar"
	case strings.HasSuffix(lower, ".tar.gz"), strings.HasSuffix(lower, ".tgz"):
		return "tar.gz"
	case strings.HasSuffix(lower, ".zip"):
		return "zip"
	}
	return ""
}
