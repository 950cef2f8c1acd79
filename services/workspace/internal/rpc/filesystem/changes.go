package filesystem

import (
	"context"
	"errors"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
)

// ApplyChanges implements the service. Every path of the set is checked before anything is done.
func (s *Server) ApplyChanges(ctx context.Context, req *filesystemv1.ApplyChangesRequest) (*filesystemv1.ApplyChangesResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	set := changeSet{caller: c}
	for i, change := range req.GetChanges() {
		if err := set.add(change); err != nil {
			return nil, files.OfChange(i, err)
		}
	}
	call, err := c.Call("ApplyChanges", req)
	if err != nil {
		return nil, err
	}
	out, err := set.target.View.Apply(ctx, call, set.changes)
	if err != nil {
		return nil, err
	}
	response := &filesystemv1.ApplyChangesResponse{Cursor: out.Cursor}
	for _, e := range out.Entries {
		response.Infos = append(response.Infos, infoOf(set.target.Entry(e)))
	}
	return response, nil
}

// changeSet is a set as it is read from a request.
type changeSet struct {
	caller  *caller.Caller
	target  caller.Target
	changes []files.FileChange
}

func (s *changeSet) add(c *filesystemv1.FileChange) error {
	var out files.FileChange
	switch c := c.GetChange().(type) {
	case *filesystemv1.FileChange_Write:
		w := c.Write
		if size := int64(len(w.GetContent())); size > maxUnaryBytes {
			return fsops.ErrTooLarge(maxUnaryBytes, size)
		}
		p, err := s.path(w.GetPath(), w.GetLayer(), fsops.ParseFilePath)
		if err != nil {
			return err
		}
		out.Write, out.Content = &files.Write{Path: p, Mode: modeOf(w.GetMode()), Revision: w.GetIfRevision(), FileMode: w.GetFileMode()}, w.GetContent()
	case *filesystemv1.FileChange_Edit:
		p, err := s.path(c.Edit.GetPath(), c.Edit.GetLayer(), fsops.ParseFilePath)
		if err != nil {
			return err
		}
		out.Edit = &files.EditFile{Path: p, Edits: editsOf(c.Edit), Revision: c.Edit.GetIfRevision()}
	case *filesystemv1.FileChange_Delete:
		d := c.Delete
		p, err := s.path(d.GetPath(), d.GetLayer(), fsops.ParsePath)
		if err != nil {
			return err
		}
		out.Delete = &files.Delete{Path: p, Recursive: d.GetRecursive(), AllowMissing: d.GetAllowMissing(), Revision: d.GetIfRevision()}
	case *filesystemv1.FileChange_Move:
		m := c.Move
		from, err := s.path(m.GetFromPath(), filesystemv1.Layer_LAYER_BUCKET, fsops.ParsePath)
		if err != nil {
			return err
		}
		to, err := s.path(m.GetToPath(), filesystemv1.Layer_LAYER_BUCKET, fsops.ParsePath)
		if err != nil {
			return err
		}
		out.Move = &files.Move{From: from, To: to, Overwrite: m.GetOverwrite(), Revision: m.GetIfRevision()}
	default:
		return errors.New("a change of a kind that is not known")
	}
	s.changes = append(s.changes, out)
	return nil
}

// path resolves a path of the set, which must be of the layer of those before it.
func (s *changeSet) path(text string, layer filesystemv1.Layer, parse func(string) (fsops.Path, error)) (fsops.Path, error) {
	c, err := resolveChange(s.caller, text, layer, parse)
	if err != nil {
		return fsops.Path{}, err
	}
	if s.target.View == nil {
		s.target = c.target
	} else if s.target.Layer != c.target.Layer {
		return fsops.Path{}, fsops.ErrCapabilityMissing("change sets across layers")
	}
	return c.path, nil
}
