package cli

import (
	"context"
	"errors"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// errEnough ends a listing that has shown as much as was asked for.
var errEnough = errors.New("enough")

// pageSize is how many entries are asked for at once.
const pageSize = 1000

// Limit bounds what a listing shows.
type Limit struct {
	Limit int64 `help:"Show at most so many. 0: all." default:"0"`
}

// take calls fn for entries until the limit is reached, and says then that there is more.
func (l *Limit) take(env *Env, shown *int64, entries []*fsv1.FileInfo, fn func(*fsv1.FileInfo) error) error {
	for _, e := range entries {
		if l.Limit > 0 && *shown >= l.Limit {
			env.Note("more follows; --limit 0 shows everything")
			return errEnough
		}
		if err := fn(e); err != nil {
			return err
		}
		*shown++
	}
	return nil
}

func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// FsLs lists.
type FsLs struct {
	Target
	OneLayer
	Limit
	Path      string `arg:"" optional:"" help:"Directory, or a file."`
	Long      bool   `short:"l" help:"Show mode, bytes, author and revision too."`
	Recursive bool   `short:"r" help:"Everything below."`
}

// Help shows an example.
func (FsLs) Help() string {
	return example("gantry fs ls -l knowledge --agent coder --user ana", "gantry fs ls -r --layer bucket --user ana") +
		"\n\nThe layer says where a path comes from; \"+\" behind it, that a lower layer has the path too."
}

// Run lists, page by page.
func (c *FsLs) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		show := c.entry
		if c.Long {
			show = c.longEntry
		}
		var shown int64
		req := &fsv1.ListRequest{Path: c.Path, Recursive: c.Recursive, Layer: c.layer(), PageSize: pageSize}
		err := listing(ctx, clients.Files, req, func(page *fsv1.ListResponse) error {
			env.warnings(page.GetWarnings())
			return env.batch(func(env *Env) error {
				return c.take(env, &shown, page.GetEntries(), func(e *fsv1.FileInfo) error { return show(env, e) })
			})
		})
		if isReason(err, fsops.ReasonNotADirectory) {
			got, statErr := clients.Files.Stat(ctx, &fsv1.StatRequest{Path: c.Path, Layer: c.layer()})
			if statErr == nil {
				return show(env, got.GetInfo())
			}
		}
		return enough(err)
	})
}

// FsStat describes one path.
type FsStat struct {
	Target
	OneLayer
	Path string `arg:"" optional:"" help:"File or directory. Empty: the root."`
}

// Help shows an example.
func (FsStat) Help() string { return example("gantry fs stat AGENTS.md --agent coder --user ana") }

// Run describes it.
func (c *FsStat) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.Stat(ctx, &fsv1.StatRequest{Path: c.Path, Layer: c.layer()})
		if err != nil {
			return err
		}
		e := got.GetInfo()
		if c.JSON {
			return env.JSON(e)
		}
		env.Line("path      %s", or(pathText(e), "/"))
		env.Line("kind      %s", strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "FILE_KIND_")))
		env.Line("layer     %s", layerText(e))
		env.Line("mode      %04o", e.GetMode())
		if isDir(e) {
			return nil
		}
		env.Line("size      %d bytes", e.GetSizeBytes())
		env.Line("modified  %s", secondText(e.GetModifyTime()))
		env.Line("author    %s", or(e.GetAuthor(), "-"))
		env.Line("revision  %s", e.GetRevision())
		env.Line("sha256    %s", e.GetSha256())
		return nil
	})
}

// FsGlob finds.
type FsGlob struct {
	Target
	Limit
	Pattern     string `arg:"" help:"Glob; without a slash it matches at any depth. Hidden names match only where the pattern names the dot."`
	Path        string `arg:"" optional:"" help:"Directory to begin at."`
	Ignored     bool   `help:"Also what .gitignore files exclude."`
	Directories bool   `short:"d" help:"Also directories."`
	Long        bool   `short:"l" help:"Show mode, bytes, author and revision too."`
}

// Help shows an example.
func (FsGlob) Help() string { return example("gantry fs glob '**/*.{md,txt}' --user ana") }

// Run finds, page by page.
func (c *FsGlob) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		show := c.entry
		if c.Long {
			show = c.longEntry
		}
		var shown int64
		return enough(pages(func(token string) (string, error) {
			got, err := clients.Files.Glob(ctx, &fsv1.GlobRequest{
				Pattern: c.Pattern, Path: c.Path, IncludeIgnored: c.Ignored, IncludeDirectories: c.Directories, PageSize: pageSize, PageToken: token,
			})
			if err != nil {
				return "", err
			}
			env.warnings(got.GetWarnings())
			return got.GetNextPageToken(), env.batch(func(env *Env) error {
				return c.take(env, &shown, got.GetEntries(), func(e *fsv1.FileInfo) error { return show(env, e) })
			})
		}))
	})
}
