package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

const (
	// maxEditBytes bounds a file that is edited: it is read as a whole.
	maxEditBytes = 15 << 20
	// editTries is how often an edit is made again when commands change the file meanwhile.
	editTries = 5
)

// options converts the condition of a write.
func options(mode fspb.WriteMode, revision string, perm uint32) sandbox.WriteOptions {
	o := sandbox.WriteOptions{CreateOnly: mode == fspb.WriteMode_WRITE_MODE_CREATE, Mode: fs.FileMode(perm).Perm()}
	if mode == fspb.WriteMode_WRITE_MODE_IF_REVISION {
		// No file has this revision, so an empty expectation never holds.
		o.IfRevision = "-"
		if revision != "" {
			o.IfRevision = revision
		}
	}
	return o
}

// writing prepares a call that writes one file.
func (f *Files) writing(ctx context.Context, path string, layer fspb.Layer) (in *inside, name string, exists bool, err error) {
	if _, err := fsops.ParseFilePath(path); err != nil {
		return nil, "", false, err
	}
	p, err := parse(ctx, path)
	if err != nil {
		return nil, "", false, err
	}
	if err := noLayer(layer); err != nil {
		return nil, "", false, err
	}
	if in, err = f.open(ctx, true); err != nil {
		return nil, "", false, err
	}
	if name, exists, err = in.target(ctx, p); err != nil {
		in.close()
		return nil, "", false, err
	}
	return in, name, exists, nil
}

// Write implements FilesystemService.
func (f *Files) Write(ctx context.Context, req *fspb.WriteRequest) (*fspb.WriteResponse, error) {
	in, name, exists, err := f.writing(ctx, req.GetPath(), req.GetLayer())
	if err != nil {
		return nil, err
	}
	defer in.close()
	o := options(req.GetMode(), req.GetIfRevision(), req.GetFileMode())
	return once(ctx, f, in, req, !o.CreateOnly && o.IfRevision == "", &fspb.WriteResponse{}, func() (*fspb.WriteResponse, error) {
		e, err := in.Tree.Write(ctx, name, bytes.NewReader(req.GetContent()), o)
		if err != nil {
			return nil, err
		}
		return &fspb.WriteResponse{Info: info(e, sumOf(req.GetContent())), Created: !exists}, nil
	})
}

// Edit implements FilesystemService. It is read, replaced and written under the revision that was read; when a command was faster it is made again.
func (f *Files) Edit(ctx context.Context, req *fspb.EditRequest) (*fspb.EditResponse, error) {
	in, name, _, err := f.writing(ctx, req.GetPath(), req.GetLayer())
	if err != nil {
		return nil, err
	}
	defer in.close()
	return once(ctx, f, in, req, false, &fspb.EditResponse{}, func() (*fspb.EditResponse, error) { return in.edit(ctx, name, req) })
}

func (in *inside) edit(ctx context.Context, name string, req *fspb.EditRequest) (*fspb.EditResponse, error) {
	var edits []fsops.Replacement
	for _, r := range req.GetReplacements() {
		edits = append(edits, fsops.Replacement{Old: r.GetOldText(), New: r.GetNewText(), All: r.GetReplaceAll()})
	}
	for try := 1; ; try++ {
		content, st, err := in.whole(ctx, name)
		if err != nil {
			return nil, err
		}
		if want := req.GetIfRevision(); want != "" && want != st.Revision {
			return nil, fsops.ErrRevisionConflict(req.GetPath(), st.Revision, "", st.ModTime)
		}
		edited, err := fsops.Edit(content, edits)
		if err != nil {
			return nil, err
		}
		e, err := in.Tree.Write(ctx, name, bytes.NewReader(edited.Content), sandbox.WriteOptions{IfRevision: st.Revision})
		if errdefs.ReasonOf(err) == fsops.ReasonRevisionConflict && req.GetIfRevision() == "" && try < editTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		resp := &fspb.EditResponse{Info: info(e, sumOf(edited.Content)), Diff: edited.Diff(req.GetPath(), fsops.MaxEditDiffBytes)}
		for _, n := range edited.Counts {
			resp.Replaced = append(resp.Replaced, int32(n))
		}
		return resp, nil
	}
}

// whole reads a file that is small enough to be edited.
func (in *inside) whole(ctx context.Context, name string) ([]byte, sandbox.Entry, error) {
	file, err := in.Tree.Open(ctx, name)
	if err != nil {
		return nil, sandbox.Entry{}, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, st, err
	}
	if st.Size > maxEditBytes {
		return nil, st, fsops.ErrTooLarge(maxEditBytes, st.Size)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxEditBytes+1))
	return content, st, err
}

// Append implements FilesystemService.
func (f *Files) Append(ctx context.Context, req *fspb.AppendRequest) (*fspb.AppendResponse, error) {
	in, name, _, err := f.writing(ctx, req.GetPath(), fspb.Layer_LAYER_UNSPECIFIED)
	if err != nil {
		return nil, err
	}
	defer in.close()
	return once(ctx, f, in, req, false, &fspb.AppendResponse{}, func() (*fspb.AppendResponse, error) {
		e, offset, err := in.Tree.Append(ctx, name, req.GetContent(), req.GetEnsureNewline())
		if err != nil {
			return nil, err
		}
		sum, err := in.sum(ctx, name)
		if err != nil {
			return nil, err
		}
		return &fspb.AppendResponse{Info: info(e, sum), OffsetBytes: offset}, nil
	})
}

// Delete implements FilesystemService.
func (f *Files) Delete(ctx context.Context, req *fspb.DeleteRequest) (*fspb.DeleteResponse, error) {
	p, err := parse(ctx, req.GetPath())
	if err != nil {
		return nil, err
	}
	if err := noLayer(req.GetLayer()); err != nil {
		return nil, err
	}
	in, err := f.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer in.close()
	return once(ctx, f, in, req, req.GetAllowMissing(), &fspb.DeleteResponse{}, func() (*fspb.DeleteResponse, error) { return in.delete(ctx, p, req) })
}

func (in *inside) delete(ctx context.Context, p fsops.Path, req *fspb.DeleteRequest) (*fspb.DeleteResponse, error) {
	name, err := in.locate(ctx, p)
	if errors.Is(err, errdefs.ErrNotFound) && req.GetAllowMissing() {
		return &fspb.DeleteResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := in.Tree.Lstat(ctx, name)
	if err != nil {
		return nil, err
	}
	if want := req.GetIfRevision(); want != "" && want != e.Revision {
		return nil, fsops.ErrRevisionConflict(req.GetPath(), e.Revision, "", e.ModTime)
	}
	files := int64(1)
	if e.Kind == fs.ModeDir {
		if files, err = in.count(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := in.Tree.Remove(ctx, name, req.GetRecursive()); err != nil {
		return nil, err
	}
	return &fspb.DeleteResponse{Files: files}, nil
}

// count counts the files below a directory.
func (in *inside) count(ctx context.Context, name string) (int64, error) {
	w := walker{in: in, recursive: true, all: true}
	err := w.walk(ctx, fsops.PathOf(name))
	return int64(len(w.found)), err
}

// Move implements FilesystemService.
func (f *Files) Move(ctx context.Context, req *fspb.MoveRequest) (*fspb.MoveResponse, error) {
	from, err := parse(ctx, req.GetFromPath())
	if err != nil {
		return nil, err
	}
	to, err := parse(ctx, req.GetToPath())
	if err != nil {
		return nil, err
	}
	if to.Under(from) {
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonPathInvalid, "%q is inside %q", req.GetToPath(), req.GetFromPath()).
			With("path", req.GetToPath())
	}
	in, err := f.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer in.close()
	return once(ctx, f, in, req, false, &fspb.MoveResponse{}, func() (*fspb.MoveResponse, error) { return in.move(ctx, from, to, req) })
}

func (in *inside) move(ctx context.Context, from, to fsops.Path, req *fspb.MoveRequest) (*fspb.MoveResponse, error) {
	source, err := in.locate(ctx, from)
	if err != nil {
		return nil, err
	}
	e, err := in.Tree.Lstat(ctx, source)
	if err != nil {
		return nil, err
	}
	if want := req.GetIfRevision(); want != "" && want != e.Revision {
		return nil, fsops.ErrRevisionConflict(req.GetFromPath(), e.Revision, "", e.ModTime)
	}
	target, exists, err := in.target(ctx, to)
	if err != nil {
		return nil, err
	}
	if target != source {
		if err := in.replaceable(ctx, target, exists, req.GetOverwrite()); err != nil {
			return nil, err
		}
		if err := in.Tree.Rename(ctx, source, target, req.GetOverwrite()); err != nil {
			return nil, err
		}
	}
	resp := &fspb.MoveResponse{Files: 1}
	moved, err := in.Tree.Lstat(ctx, target)
	if err != nil {
		return nil, err
	}
	sum := ""
	switch moved.Kind {
	case fs.ModeDir:
		if resp.Files, err = in.count(ctx, target); err != nil {
			return nil, err
		}
	case 0:
		if sum, err = in.sum(ctx, target); err != nil {
			return nil, err
		}
	}
	resp.Info = info(moved, sum)
	return resp, nil
}

// replaceable checks that a move may put something at target.
func (in *inside) replaceable(ctx context.Context, target string, exists, overwrite bool) error {
	if !exists {
		return nil
	}
	e, err := in.Tree.Lstat(ctx, target)
	if err != nil {
		return err
	}
	if !overwrite || e.Kind == fs.ModeDir {
		return fsops.ErrExists(target, e.Revision)
	}
	return nil
}
