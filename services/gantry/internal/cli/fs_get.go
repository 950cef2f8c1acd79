package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FsGet reads.
type FsGet struct {
	Target
	OneLayer
	Parallel
	Path      string `arg:"" help:"File; with -r a directory, / for all."`
	To        string `arg:"" optional:"" help:"File of this machine, or a directory to put it into; - is the standard output. Empty: the file's name, here."`
	Force     bool   `short:"f" help:"Replace files that are there."`
	Recursive bool   `short:"r" help:"Fetch a directory with all below it."`
	Revision  string `help:"Fetch this version, as gantry fs history shows it."`
}

// Help shows an example.
func (FsGet) Help() string {
	return example("gantry fs get report.pdf --user ana", "gantry fs get data.csv - --user ana | sort", "gantry fs get -r / ./backup --user ana") +
		"\n\nNothing is written outside of the directory, whatever the names in the bucket are; a file appears when all of it has arrived and been checked."
}

// Run fetches.
func (c *FsGet) Run(ctx context.Context, env *Env) error {
	if c.Recursive {
		return c.tree(ctx, env)
	}
	if c.To == "-" {
		return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
			req := &fsv1.DownloadRequest{Path: c.Path, Layer: c.layer(), Revision: c.Revision}
			return receive(ctx, clients.Files, req, func(*fsv1.FileInfo) error { return nil }, func(chunk []byte) error {
				_, err := env.Out.Write(chunk)
				return err
			})
		})
	}
	dir, name, err := c.place()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		progress := c.progress(env)
		info, err := c.fetch(ctx, clients.Files, c.Path, root, name, progress)
		progress.clear()
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(info)
		}
		env.Line("%s  %d bytes  %s", filepath.Join(dir, name), info.GetSizeBytes(), info.GetSha256())
		return nil
	})
}

// place says into which directory the file goes, and under which name.
func (c *FsGet) place() (dir, name string, err error) {
	base := path.Base(path.Clean("/" + c.Path))
	if c.To != "" {
		if info, err := os.Stat(c.To); err != nil || !info.IsDir() {
			return filepath.Dir(c.To), filepath.Base(c.To), nil
		}
	}
	if base == "/" {
		return "", "", problem(errdefs.ErrFailedPrecondition, "IS_DIRECTORY", "the root is a directory: -r fetches it with all below it")
	}
	return or(c.To, "."), base, localName(runtime.GOOS, base)
}

// fetch writes a file below root. It is written under another name beside its place, checked, and put into place as a whole; an interrupted one leaves nothing.
func (c *FsGet) fetch(ctx context.Context, files fsv1.FilesystemServiceClient, from string, root *os.Root, name string, progress *Progress) (info *fsv1.FileInfo, err error) {
	if _, err := root.Lstat(name); err == nil && !c.Force {
		return nil, problem(errdefs.ErrAlreadyExists, "FILE_EXISTS", "%s is there already: --force replaces it, another name keeps it", name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	temp := filepath.Join(filepath.Dir(name), ".gantry-get-"+strings.ToLower(rand.Text()[:12]))
	var f *os.File
	defer func() {
		if f != nil {
			closing(f, &err)
		}
		if err != nil && f != nil {
			err = errors.Join(err, root.Remove(temp))
		}
	}()
	req := &fsv1.DownloadRequest{Path: from, Layer: c.layer(), Revision: c.Revision}
	err = receive(ctx, files, req, func(got *fsv1.FileInfo) error {
		info = got
		progress.expect(progressOf(c.Recursive, got))
		mode := fs.FileMode(0o666)
		if got.GetMode()&0o111 != 0 {
			mode = 0o777
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		f, err = root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		return err
	}, func(chunk []byte) error {
		progress.add(len(chunk))
		_, err := f.Write(chunk)
		return err
	})
	if err != nil {
		return nil, err
	}
	if t := info.GetModifyTime(); t != nil {
		_ = root.Chtimes(temp, t.AsTime(), t.AsTime()) // the time is a courtesy: some file systems keep none
	}
	return info, root.Rename(temp, name)
}

// progressOf is the size to expect: not known when many files are fetched.
func progressOf(many bool, info *fsv1.FileInfo) int64 {
	if many {
		return 0
	}
	return info.GetSizeBytes()
}
