package cli

import (
	"context"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FsHistory lists versions.
type FsHistory struct {
	Target
	Limit
	Path string `arg:"" help:"File; it may be deleted by now."`
}

// Help shows an example.
func (FsHistory) Help() string { return example("gantry fs history MEMORY.md --user ana") }

// Run lists them, newest first.
func (c *FsHistory) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		var shown int64
		return enough(versions(ctx, clients.Files, c.Path, func(r *fsv1.Revision) error {
			if c.Limit.Limit > 0 && shown >= c.Limit.Limit {
				env.Note("more follows; --limit 0 shows everything")
				return errEnough
			}
			shown++
			if c.JSON {
				return env.JSON(r)
			}
			size := sizeText(r.GetSizeBytes())
			if r.GetDeleted() {
				size = "deleted"
			}
			env.Line("%-12s  %s  %10s  %s", r.GetRevision(), secondText(r.GetTime()), size, or(r.GetAuthor(), "-"))
			return nil
		}))
	})
}

// versions calls fn with the kept versions of a file, newest first.
func versions(ctx context.Context, files fsv1.FilesystemServiceClient, path string, fn func(*fsv1.Revision) error) error {
	return pages(func(token string) (string, error) {
		got, err := files.ListRevisions(ctx, &fsv1.ListRevisionsRequest{Path: path, PageSize: 500, PageToken: token})
		if err != nil {
			return "", err
		}
		for _, r := range got.GetRevisions() {
			if err := fn(r); err != nil {
				return "", err
			}
		}
		return got.GetNextPageToken(), nil
	})
}

// FsDiff compares.
type FsDiff struct {
	Target
	Path    string `arg:"" help:"File."`
	From    string `arg:"" optional:"" help:"Older version, as gantry fs history shows it. Empty: the one before the current one."`
	To      string `arg:"" optional:"" help:"Newer version. Empty: the current one."`
	Context int32  `short:"U" help:"Lines of context, at most 20." default:"3"`
}

// Help shows an example.
func (FsDiff) Help() string { return example("gantry fs diff MEMORY.md --user ana") }

// Run prints a unified diff; nothing where the versions are equal.
func (c *FsDiff) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		from := c.From
		if from == "" {
			var err error
			if from, err = c.before(ctx, clients.Files); err != nil {
				return err
			}
		}
		got, err := clients.Files.DiffRevisions(ctx, &fsv1.DiffRevisionsRequest{Path: c.Path, FromRevision: from, ToRevision: c.To, ContextLines: c.Context})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		printDiff(env, got.GetDiff())
		if got.GetTruncated() {
			env.Note("the difference is larger than shown")
		}
		return nil
	})
}

// before finds the newest kept version that is not the current one.
func (c *FsDiff) before(ctx context.Context, files fsv1.FilesystemServiceClient) (string, error) {
	now, err := files.Stat(ctx, &fsv1.StatRequest{Path: c.Path})
	if err != nil {
		return "", err
	}
	found := ""
	err = versions(ctx, files, c.Path, func(r *fsv1.Revision) error {
		if r.GetDeleted() || r.GetRevision() == now.GetInfo().GetRevision() {
			return nil
		}
		found = r.GetRevision()
		return errEnough
	})
	if err = enough(err); err == nil && found == "" {
		err = problem(errdefs.ErrFailedPrecondition, "NO_VERSIONS", "no earlier version of %s is kept", c.Path)
	}
	return found, err
}

// printDiff prints a unified diff, on a terminal in colour.
func printDiff(env *Env, diff string) {
	if !colours(env.Out) {
		env.text(diff)
		return
	}
	for line := range strings.Lines(diff) {
		colour := ""
		switch line[0] {
		case '-':
			colour = "\x1b[31m"
		case '+':
			colour = "\x1b[32m"
		case '@':
			colour = "\x1b[36m"
		}
		env.raw(colour + Printable(strings.TrimSuffix(line, "\n")) + colourEnd + "\n")
	}
}

// FsRestore restores.
type FsRestore struct {
	Target
	Path       string `arg:"" help:"File."`
	Revision   string `arg:"" help:"Version, as gantry fs history shows it."`
	IfRevision string `name:"if-revision" help:"Only if the file is still at this revision."`
}

// Help shows an example.
func (FsRestore) Help() string {
	return example("gantry fs restore MEMORY.md 17-3 --user ana") + "\n\nThe version becomes a new one; what it replaces is kept too."
}

// Run restores it.
func (c *FsRestore) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.RestoreRevision(ctx, &fsv1.RestoreRevisionRequest{Path: c.Path, Revision: c.Revision, IfRevision: c.IfRevision})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("%s  %d bytes  revision %s", pathText(got.GetInfo()), got.GetInfo().GetSizeBytes(), got.GetInfo().GetRevision())
		return nil
	})
}
