package cli

import (
	"context"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// Fs works with files.
type Fs struct {
	Ls      FsLs      `cmd:"" help:"List a directory."`
	Stat    FsStat    `cmd:"" help:"Describe a file or directory."`
	Cat     FsCat     `cmd:"" help:"Print a file, or a part of it."`
	Put     FsPut     `cmd:"" help:"Write a file from a file of this machine or from the standard input; with -r a directory."`
	Get     FsGet     `cmd:"" help:"Write a file to a file of this machine or to the standard output; with -r a directory."`
	Append  FsAppend  `cmd:"" help:"Add to the end of a file."`
	Edit    FsEdit    `cmd:"" help:"Change a file: exact replacements, or in an editor."`
	Rm      FsRm      `cmd:"" help:"Delete a file or directory."`
	Mv      FsMv      `cmd:"" help:"Move a file or directory."`
	Glob    FsGlob    `cmd:"" help:"Find files by a pattern of their path."`
	Grep    FsGrep    `cmd:"" help:"Search the text of files."`
	Du      FsDu      `cmd:"" help:"Say how much is in which directory, and what the bucket may hold."`
	Watch   FsWatch   `cmd:"" help:"Follow the changes of the bucket."`
	History FsHistory `cmd:"" help:"List the versions of a file that are kept."`
	Diff    FsDiff    `cmd:"" help:"Compare two versions of a file."`
	Restore FsRestore `cmd:"" help:"Make an earlier version of a file the current one."`
	Export  FsExport  `cmd:"" help:"Write all files to a directory or an archive."`
	Import  FsImport  `cmd:"" help:"Write files from a directory or an archive; with --agentscope take over a whole workspace."`
	Path    FsPath    `cmd:"" help:"Print where the files of the bucket are on this machine."`
}

// example is the detail of a command's help.
func example(lines ...string) string {
	title := "Example:"
	if len(lines) > 1 {
		title = "Examples:"
	}
	return title + "\n\n  " + strings.Join(lines, "\n  ")
}

// problem makes an error of this command line.
func problem(class error, reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(class, "gantry.cli", reason, format, args...)
}

// OneLayer narrows reading to one layer.
type OneLayer struct {
	Layer string `help:"Look at this layer alone: bucket, user, template, sandbox or project. Empty: as the bucket sees it." enum:",bucket,user,template,sandbox,project" default:""`
}

func (l OneLayer) layer() fsv1.Layer { return layerOf(l.Layer) }

// IntoLayer says which layer is written.
type IntoLayer struct {
	Layer string `help:"Layer to write: bucket, user or template. Lower layers need the verb template.write." enum:",bucket,user,template" default:""`
}

func (l IntoLayer) layer() fsv1.Layer { return layerOf(l.Layer) }

func layerOf(word string) fsv1.Layer {
	return fsv1.Layer(fsv1.Layer_value["LAYER_"+strings.ToUpper(word)])
}

// listing calls fn with each page of a listing.
func listing(ctx context.Context, files fsv1.FilesystemServiceClient, req *fsv1.ListRequest, fn func(*fsv1.ListResponse) error) error {
	return pages(func(token string) (string, error) {
		req.PageToken = token
		got, err := files.List(ctx, req)
		if err != nil {
			return "", err
		}
		return got.GetNextPageToken(), fn(got)
	})
}

// isReason says whether an error of the file services has a reason.
func isReason(err error, reason string) bool { return errdefs.ReasonOf(err) == reason }

func isMissing(err error) bool { return isReason(err, fsops.ReasonPathNotFound) }

// FsPath locates the bucket.
type FsPath struct{ Target }

// Help shows an example.
func (FsPath) Help() string { return example(`cd "$(gantry fs path --agent coder --user ana)"`) }

// Run prints the directory.
func (c *FsPath) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Workspace.LocateBucket(ctx, &workspacev1.LocateBucketRequest{})
		if isReason(err, "NO_PLAIN_FILES") {
			return problem(errdefs.ErrFailedPrecondition, "NO_PLAIN_FILES", "%s; gantry fs export writes the files to a directory", err)
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("%s", got.GetDirectory())
		return nil
	})
}
