package cli

import (
	"context"
	"errors"
	"io"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FsGrep searches.
type FsGrep struct {
	Target
	Pattern    string `arg:"" help:"Text, or a regular expression (RE2) with -E."`
	Path       string `arg:"" optional:"" help:"File or directory."`
	Regex      bool   `short:"E" help:"Take the pattern as a regular expression (RE2)."`
	IgnoreCase bool   `short:"i" help:"Ignore letter case."`
	Glob       string `short:"g" help:"Only files that match. Hidden names match only where it names the dot."`
	Before     int32  `short:"B" help:"Show so many lines before each match, at most 20."`
	After      int32  `short:"A" help:"Show so many lines after each match, at most 20."`
	Context    int32  `short:"C" help:"Show so many lines before and after each match, at most 20."`
	Max        int32  `help:"Matches in all. 0: 1,000. At most 10,000."`
	FilesOnly  bool   `short:"l" name:"files-with-matches" help:"Print only the paths of files that match."`
	Ignored    bool   `help:"Also what .gitignore files exclude."`
}

// Help shows an example.
func (FsGrep) Help() string {
	return example("gantry fs grep -i deadline memory --user ana", "gantry fs grep -E 'TODO|FIXME' -g '*.go' -C 2 --user ana") +
		"\n\nExit code 0: found; 1: nothing found, or the search is not complete and says why. Hidden files are searched too."
}

// Run searches. An incomplete answer never looks like a complete one: it says why it ended, and is exit code 1 unless --max asked for no more.
func (c *FsGrep) Run(ctx context.Context, env *Env) error {
	req := &fsv1.GrepRequest{
		Pattern: c.Pattern, Path: c.Path, Regex: c.Regex, IgnoreCase: c.IgnoreCase, Glob: c.Glob, IncludeIgnored: c.Ignored,
		ContextBefore: max(c.Before, c.Context), ContextAfter: max(c.After, c.Context), MaxMatches: c.Max,
	}
	if c.FilesOnly {
		req.MaxMatchesPerFile, req.ContextBefore, req.ContextAfter = 1, 0, 0
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Files.Grep(ctx, req)
		if err != nil {
			return err
		}
		shown := &matchPrinter{env: env, colour: colours(env.Out)}
		for {
			msg, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				err = problem(errdefs.ErrUnavailable, "STREAM_BROKEN", "the search broke off")
			}
			if err != nil {
				return err // the end message comes before the end of the stream
			}
			switch m, end := msg.GetMatch(), msg.GetEnd(); {
			case c.JSON:
				if err := env.JSON(msg); err != nil {
					return err
				}
			case m != nil && c.FilesOnly:
				env.Line("%s", m.GetPath())
			case m != nil:
				shown.match(m)
			case end != nil:
				shown.end()
			}
			if end := msg.GetEnd(); end != nil {
				return c.end(env, end)
			}
		}
	})
}

func (c *FsGrep) end(env *Env, end *fsv1.GrepEnd) error {
	env.warnings(end.GetWarnings())
	switch {
	case end.GetTruncated() && end.GetReason() == "max_matches" && (c.Max > 0 || c.FilesOnly) && end.GetMatches() > 0:
		if !c.FilesOnly || c.Max > 0 && end.GetMatches() >= int64(c.Max) {
			env.Note("more may follow: --max allowed %s", count(end.GetMatches(), "match"))
		}
	case end.GetTruncated():
		return problem(errdefs.ErrResourceExhausted, "INCOMPLETE", "the search is not complete (%s): narrow it by a path, by --glob, or raise --max", end.GetReason())
	case end.GetMatches() == 0:
		return exitCode(ExitFailed)
	}
	return nil
}
