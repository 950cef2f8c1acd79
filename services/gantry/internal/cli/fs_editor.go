package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// maxEditor is the largest file that is opened in an editor, and that an editor may leave.
const maxEditor = 16 << 20

// inEditor opens the file in an editor and writes what was saved, if nobody else has written meanwhile.
func (c *FsEdit) inEditor(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient) (err error) {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" {
		return problem(errdefs.ErrFailedPrecondition, "NO_EDITOR", "neither VISUAL nor EDITOR names an editor: set one, or give --old and --new")
	}
	info, old, err := c.load(ctx, files)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gantry-edit-")
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	name := path.Base(path.Clean("/" + c.Path))
	if localName(runtime.GOOS, name) != nil {
		name = "file"
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, old, 0o600); err != nil {
		return err
	}
	editErr := runEditor(ctx, env, editor, file)
	text, err := readSmall(file)
	switch {
	case err != nil:
		return errors.Join(editErr, err)
	case bytes.Equal(text, old):
		if editErr == nil {
			env.Note("nothing was changed")
		}
		return editErr
	}
	if editErr == nil {
		editErr = c.save(ctx, env, files, info, old, text)
	}
	if editErr != nil {
		keep = true
		env.Note("your text is kept in %s", file)
	}
	return editErr
}

// load fetches the file. One that does not exist is empty and will be made.
func (c *FsEdit) load(ctx context.Context, files fsv1.FilesystemServiceClient) (info *fsv1.FileInfo, old []byte, err error) {
	err = receive(ctx, files, &fsv1.DownloadRequest{Path: c.Path, Layer: c.layer()}, func(got *fsv1.FileInfo) error {
		info = got
		if got.GetSizeBytes() > maxEditor {
			return problem(errdefs.ErrFailedPrecondition, "TOO_LARGE", "%s has %s, too much for an editor: gantry fs get and gantry fs put --if-revision %s", c.Path, sizeText(got.GetSizeBytes()), got.GetRevision())
		}
		return nil
	}, func(chunk []byte) error {
		old = append(old, chunk...)
		return nil
	})
	if isMissing(err) && c.IfRevision == "" {
		return nil, nil, nil
	}
	if err == nil && c.IfRevision != "" && info.GetRevision() != c.IfRevision {
		err = problem(errdefs.ErrAborted, "REVISION_CONFLICT", "%s is at revision %s now", c.Path, info.GetRevision())
	}
	return info, old, err
}

// save writes the text over the revision that was edited.
func (c *FsEdit) save(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, info *fsv1.FileInfo, old, text []byte) error {
	head := &fsv1.UploadHeader{Path: c.Path, Layer: c.layer(), Mode: fsv1.WriteMode_WRITE_MODE_CREATE}
	if info != nil {
		head.Mode, head.IfRevision = fsv1.WriteMode_WRITE_MODE_IF_REVISION, info.GetRevision()
	}
	got, err := send(ctx, files, head, bytes.NewReader(text))
	if isReason(err, "REVISION_CONFLICT") || isReason(err, "PATH_EXISTS") {
		return problem(errdefs.ErrAborted, "REVISION_CONFLICT", "%s was changed while you edited it: edit it again and take your text over", c.Path)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return env.JSON(got)
	}
	printDiff(env, unified(got.GetInfo().GetPath(), old, text))
	return nil
}

// runEditor lets a person edit a file. The editor may have arguments, so the shell runs it.
func runEditor(ctx context.Context, env *Env, editor, file string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file)
	if runtime.GOOS == "windows" {
		words := strings.Fields(editor)
		cmd = exec.CommandContext(ctx, words[0], append(words[1:], file)...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.In, env.Out, env.Err
	if err := cmd.Run(); err != nil {
		return problem(errdefs.ErrFailedPrecondition, "EDITOR_FAILED", "the editor %q ended with %s; nothing was written", editor, err)
	}
	return nil
}

// readSmall reads what the editor left.
func readSmall(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxEditor {
		return nil, problem(errdefs.ErrInvalidArgument, "TOO_LARGE", "the text has %s, at most %s are taken from an editor", sizeText(info.Size()), sizeText(maxEditor))
	}
	return os.ReadFile(file)
}
