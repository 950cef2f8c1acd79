package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// A set of changes holds files of at most so many bytes, so that it fits into a message; larger files go by themselves.
	setFile  = 1 << 20
	setBytes = 8 << 20
	setFiles = 500
)

// FsImport takes files in.
type FsImport struct {
	Target
	IntoLayer
	From       string `arg:"" optional:"" help:"Directory, or an archive: .tar, .tar.gz, .tgz or .zip. - is a tar on the standard input."`
	To         string `arg:"" optional:"" help:"Directory of the bucket to write into."`
	CreateOnly bool   `name:"create-only" help:"Only where there is no such file."`
	DryRun     bool   `name:"dry-run" help:"Only say what would be done."`
	AgentScope string `name:"agentscope" help:"Take over this AgentScope workspace directory of the service's host: the files, conversations and ledgers of all its users, for --agent." type:"path"`
}

// Help shows an example.
func (FsImport) Help() string {
	return example("gantry fs import backup.tar.gz --user ana", "gantry fs import ./docs knowledge --user ana --dry-run", "gantry fs import --agentscope /srv/old-workspace --agent coder --dry-run") +
		"\n\nSmall files are written in sets, each all or nothing. An AgentScope workspace must lie below a directory that the workspace service was given with --import-dirs; repeating its import changes nothing, and goes on where one was interrupted."
}

// Run imports.
func (c *FsImport) Run(ctx context.Context, env *Env) error {
	if (c.From == "") == (c.AgentScope == "") {
		return problem(errdefs.ErrInvalidArgument, "USAGE", "name a directory or an archive, or a workspace with --agentscope")
	}
	if c.AgentScope != "" {
		c.importDirs = []string{filepath.Clean(c.AgentScope)}
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		if c.AgentScope != "" {
			return c.workspace(ctx, env, clients.Workspace)
		}
		src, err := openSource(c.From, env.In)
		if err != nil {
			return err
		}
		defer src.close()
		return c.files(ctx, env, clients.Files, src)
	})
}

// workspace has the service import a whole workspace. A call does as much as its time allows, so it is repeated until nothing is left.
func (c *FsImport) workspace(ctx context.Context, env *Env, client workspacev1.WorkspaceServiceClient) error {
	req := &workspacev1.ImportWorkspaceRequest{Directory: filepath.Clean(c.AgentScope), Agent: c.Agent, DryRun: c.DryRun}
	var files, threads int64
	for {
		got, err := client.ImportWorkspace(ctx, req)
		if err != nil {
			return err
		}
		files, threads = files+got.GetFiles(), threads+got.GetThreads()
		if got.GetMore() && !c.DryRun && got.GetFiles()+got.GetThreads() > 0 {
			env.Note("%s and %s so far; going on", count(files, "file"), count(threads, "thread"))
			continue
		}
		got.Files, got.Threads = files, threads
		return c.report(env, got)
	}
}

// report shows what an import did. One that is not complete is exit code 1.
func (c *FsImport) report(env *Env, got *workspacev1.ImportWorkspaceResponse) error {
	verb := "imported"
	if c.DryRun {
		verb = "would import"
	}
	if c.JSON {
		if err := env.JSON(got); err != nil {
			return err
		}
	} else {
		for _, left := range got.GetLeftOut() {
			env.Line("left out: %s", left)
		}
		if more := got.GetLeftOutCount() - int64(len(got.GetLeftOut())); more > 0 {
			env.Line("left out: %d more", more)
		}
		env.Line("%s %s and %s; %d and %d are there already; %d left out", verb, count(got.GetFiles(), "file"), count(got.GetThreads(), "thread"),
			got.GetUnchangedFiles(), got.GetUnchangedThreads(), got.GetLeftOutCount())
	}
	if got.GetMore() {
		return problem(errdefs.ErrDeadlineExceeded, "INCOMPLETE", "the time did not suffice to look at everything: repeat it with a longer --timeout")
	}
	return nil
}

// taker writes what a source gives.
type taker struct {
	*FsImport
	files fsv1.FilesystemServiceClient
	tally *Tally
	sets  bool // the implementer has ApplyChanges
	set   []*fsv1.FileChange
	bytes int
}

func (c *FsImport) files(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, src source) error {
	can, err := files.GetCapabilities(ctx, &fsv1.GetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	progress := c.progress(env)
	defer progress.clear()
	t := &taker{FsImport: c, files: files, sets: can.GetChangeSets(), tally: newTally(env, c.JSON, progress)}
	err = src.each(ctx, t.tally, func(it item) error {
		if c.DryRun {
			t.tally.done(it.size)
			if c.JSON {
				return env.Value(map[string]any{"path": bucketPath(c.To, it.name), "size_bytes": it.size})
			}
			env.Line("%10s  %s", sizeText(it.size), bucketPath(c.To, it.name))
			return nil
		}
		return t.take(ctx, it)
	})
	if err == nil {
		err = t.flush(ctx)
	}
	if err != nil {
		return err
	}
	if c.DryRun {
		return t.tally.end("would import")
	}
	return t.tally.end("imported")
}

func (t *taker) mode() fsv1.WriteMode {
	if t.CreateOnly {
		return fsv1.WriteMode_WRITE_MODE_CREATE
	}
	return fsv1.WriteMode_WRITE_MODE_OVERWRITE
}

// take adds a small file to the set, and sends a large one by itself.
func (t *taker) take(ctx context.Context, it item) error {
	in, err := it.open()
	if err != nil {
		t.tally.fail(it.name, err)
		return nil
	}
	defer in.Close()
	head, err := io.ReadAll(io.LimitReader(in, setFile+1))
	if err != nil {
		return t.told(it.name, err)
	}
	path := bucketPath(t.To, it.name)
	if !t.sets || len(head) > setFile {
		if err := t.flush(ctx); err != nil { // what comes later in the source is written later
			return err
		}
		upload := &fsv1.UploadHeader{Path: path, Mode: t.mode(), Layer: t.layer(), FileMode: it.mode}
		got, err := send(ctx, t.files, upload, meter{io.MultiReader(bytes.NewReader(head), in), t.tally.progress})
		if err != nil {
			return t.told(it.name, err)
		}
		t.tally.done(got.GetInfo().GetSizeBytes())
		return nil
	}
	if len(t.set) == setFiles || t.bytes+len(head) > setBytes {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	t.bytes += len(head)
	t.set = append(t.set, &fsv1.FileChange{Change: &fsv1.FileChange_Write{Write: &fsv1.WriteRequest{
		Path: path, Content: head, Mode: t.mode(), Layer: t.layer(), FileMode: it.mode,
	}}})
	return nil
}

// told tells a failure of one file, and gives back one that ends everything.
func (t *taker) told(name string, err error) error {
	if hopeless(err) {
		return err
	}
	t.tally.fail(name, err)
	return nil
}

// flush writes the set, all or nothing. Where the set can't be one, its files are written one by one; then each says for itself what is wrong with it.
func (t *taker) flush(ctx context.Context) error {
	set, size := t.set, t.bytes
	t.set, t.bytes = nil, 0
	if len(set) == 0 {
		return nil
	}
	_, err := t.files.ApplyChanges(ctx, &fsv1.ApplyChangesRequest{Changes: set})
	if isReason(err, fsops.ReasonCapabilityMissing) || errors.Is(err, errdefs.ErrUnimplemented) {
		t.sets = false
		return t.oneByOne(ctx, set)
	}
	if err != nil && hopeless(err) {
		return err
	}
	if err != nil {
		for _, c := range set {
			t.tally.leave(c.GetWrite().GetPath(), "its set was not written")
		}
		t.tally.fail("a set of "+count(int64(len(set)), "file"), err)
		return nil
	}
	t.tally.progress.add(size)
	for _, c := range set {
		t.tally.done(int64(len(c.GetWrite().GetContent())))
	}
	return nil
}

func (t *taker) oneByOne(ctx context.Context, set []*fsv1.FileChange) error {
	for _, c := range set {
		got, err := t.files.Write(ctx, c.GetWrite())
		if err != nil {
			if err := t.told(c.GetWrite().GetPath(), err); err != nil {
				return err
			}
			continue
		}
		t.tally.done(got.GetInfo().GetSizeBytes())
	}
	return nil
}
