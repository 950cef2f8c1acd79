package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

func plain(n int64) string { return strconv.FormatInt(n, 10) }

// FsRm deletes.
type FsRm struct {
	Target
	IntoLayer
	Path       string `arg:"" help:"File or directory."`
	Recursive  bool   `short:"r" help:"Also a directory that is not empty."`
	Force      bool   `short:"f" help:"A path that does not exist is fine."`
	IfRevision string `name:"if-revision" help:"Only if the file is still at this revision."`
}

// Help shows an example.
func (FsRm) Help() string {
	return example("gantry fs rm -r reports/2025 --user ana") + "\n\nA path of a lower layer is hidden from this bucket; others still see it."
}

// Run deletes.
func (c *FsRm) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.Delete(ctx, &fsv1.DeleteRequest{
			Path: c.Path, Recursive: c.Recursive, AllowMissing: c.Force, IfRevision: c.IfRevision, Layer: c.layer(),
		})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("deleted %s", count(got.GetFiles(), "file"))
		return nil
	})
}

// FsMv moves.
type FsMv struct {
	Target
	From       string `arg:"" help:"File or directory."`
	To         string `arg:"" help:"Its new path: the whole path, not the directory to move into."`
	Overwrite  bool   `help:"Replace a file that is there."`
	IfRevision string `name:"if-revision" help:"Only if the file is still at this revision."`
}

// Help shows an example.
func (FsMv) Help() string { return example("gantry fs mv draft.md reports/2026.md --user ana") }

// Run moves.
func (c *FsMv) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.Move(ctx, &fsv1.MoveRequest{FromPath: c.From, ToPath: c.To, Overwrite: c.Overwrite, IfRevision: c.IfRevision})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("moved %s to %s", count(got.GetFiles(), "file"), pathText(got.GetInfo()))
		return nil
	})
}

// maxAppend is the most that one append takes, so that it stays in one piece.
const maxAppend = 15 << 20

// FsAppend adds to a file.
type FsAppend struct {
	Target
	Path  string   `arg:"" help:"File; it is made if need be."`
	Text  []string `arg:"" optional:"" help:"Text to add, as a line of its own. Nothing or \"-\": the standard input, as it is."`
	Start bool     `name:"new-line" help:"Begin on a new line where the file does not end with one."`
}

// Help shows an example.
func (FsAppend) Help() string {
	return example("gantry fs append notes.md 'Call the printer.' --user ana", "make 2>&1 | gantry fs append build.log --user ana")
}

// Run adds in one piece; what others add at the same time is kept too.
func (c *FsAppend) Run(ctx context.Context, env *Env) error {
	req := &fsv1.AppendRequest{Path: c.Path, EnsureNewline: c.Start}
	if len(c.Text) == 0 || len(c.Text) == 1 && c.Text[0] == "-" {
		data, err := io.ReadAll(io.LimitReader(env.In, maxAppend+1))
		if err != nil {
			return err
		}
		req.Content = data
	} else {
		req.EnsureNewline = true
		for i, word := range c.Text {
			if i > 0 {
				req.Content = append(req.Content, ' ')
			}
			req.Content = append(req.Content, word...)
		}
		req.Content = append(req.Content, '\n')
	}
	if len(req.GetContent()) > maxAppend {
		return problem(errdefs.ErrInvalidArgument, "TOO_LARGE", "at most %s can be added at once: split it, or write the whole file with gantry fs put", sizeText(maxAppend))
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.Append(ctx, req)
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("%s  %s, added at byte %d", pathText(got.GetInfo()), sizeText(got.GetInfo().GetSizeBytes()), got.GetOffsetBytes())
		return nil
	})
}

// closing joins the error of closing a file that was written.
func closing(f *os.File, err *error) { *err = errors.Join(*err, f.Close()) }
