package cli

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// tree uploads a directory, several files at once. What fails is told, and the rest goes on.
func (c *FsPut) tree(ctx context.Context, env *Env) error {
	if c.From == "-" || c.IfRevision != "" {
		return problem(errdefs.ErrInvalidArgument, "USAGE", "-r needs a directory to send, and no --if-revision")
	}
	root, err := os.OpenRoot(c.From)
	if err != nil {
		return err
	}
	defer root.Close()
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		progress := c.progress(env)
		tally := newTally(env, c.JSON, progress)
		err := each(ctx, c.workers(), func(ctx context.Context, hand func(string) error) error {
			return localFiles(ctx, root, tally, hand)
		}, func(ctx context.Context, stop context.CancelCauseFunc, name string) {
			if err := c.one(ctx, clients.Files, root, name, tally); err != nil {
				tally.fail(name, err)
				if hopeless(err) {
					stop(err)
				}
			}
		})
		if err != nil {
			progress.clear()
			return err
		}
		return tally.end("sent")
	})
}

// one uploads one file of the directory.
func (c *FsPut) one(ctx context.Context, files fsv1.FilesystemServiceClient, root *os.Root, name string, tally *Tally) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head := c.header(bucketPath(c.Path, name))
	if _, err := describe(head, f); err != nil {
		return err
	}
	got, err := send(ctx, files, head, meter{f, tally.progress})
	if err != nil {
		return err
	}
	tally.done(got.GetInfo().GetSizeBytes())
	if !c.JSON {
		return nil
	}
	return tally.value(got.GetInfo())
}

// localFiles hands out the paths of all regular files below a directory, with slashes. A link is followed only to a file inside the directory; what is left out is told.
func localFiles(ctx context.Context, root *os.Root, tally *Tally, hand func(string) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			tally.fail(name, err)
			return nil
		case entry.IsDir():
			return nil
		case !utf8.ValidString(name):
			tally.leave(name, "its name is not UTF-8")
			return nil
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			info, err := root.Stat(filepath.FromSlash(name))
			switch {
			case err != nil:
				tally.leave(name, "a link that leads out of the directory, or nowhere")
				return nil
			case info.IsDir():
				tally.leave(name, "a link to a directory")
				return nil
			case info.Mode().IsRegular():
				return hand(name)
			}
		}
		if !entry.Type().IsRegular() {
			tally.leave(name, "no regular file")
			return nil
		}
		return hand(name)
	})
}
