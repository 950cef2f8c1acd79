package cli

import (
	"context"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FsEdit changes a file.
type FsEdit struct {
	Target
	IntoLayer
	Path       string   `arg:"" help:"File."`
	Old        []string `help:"Text to replace; exactly one place must have it. May be given several times, each with a --new." sep:"none"`
	New        []string `help:"Text to put in its place." sep:"none"`
	All        bool     `help:"Replace every place that has the old text."`
	IfRevision string   `name:"if-revision" help:"Only if the file is still at this revision."`
}

// Help shows an example.
func (FsEdit) Help() string {
	return example("gantry fs edit AGENTS.md --old 'Be brief.' --new 'Be thorough.' --agent coder --user ana", "EDITOR=nano gantry fs edit notes.md --user ana") +
		"\n\nWithout --old the file is opened in $VISUAL or $EDITOR. What somebody else wrote meanwhile is never overwritten: your text is then kept in a file of this machine."
}

// Run applies replacements, all or none, or opens an editor.
func (c *FsEdit) Run(ctx context.Context, env *Env) error {
	if len(c.Old) != len(c.New) {
		return problem(errdefs.ErrInvalidArgument, "USAGE", "there are %d --old and %d --new: each --old needs a --new, which may be empty", len(c.Old), len(c.New))
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		if len(c.Old) == 0 {
			return c.inEditor(ctx, env, clients.Files)
		}
		req := &fsv1.EditRequest{Path: c.Path, IfRevision: c.IfRevision, Layer: c.layer()}
		for i := range c.Old {
			req.Replacements = append(req.Replacements, &fsv1.Replacement{OldText: c.Old[i], NewText: c.New[i], ReplaceAll: c.All})
		}
		got, err := clients.Files.Edit(ctx, req)
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		printDiff(env, got.GetDiff())
		return nil
	})
}
