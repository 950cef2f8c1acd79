package filesystem

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

var toLayer = map[filesystemv1.Layer]files.Layer{
	filesystemv1.Layer_LAYER_UNSPECIFIED: files.LayerAny,
	filesystemv1.Layer_LAYER_BUCKET:      files.LayerBucket,
	filesystemv1.Layer_LAYER_USER:        files.LayerUser,
	filesystemv1.Layer_LAYER_TEMPLATE:    files.LayerTemplate,
}

// layerOf reads a layer. Layers that are another service's are none of ours.
func layerOf(layer filesystemv1.Layer) (files.Layer, error) {
	l, ok := toLayer[layer]
	if !ok {
		return l, fsops.ErrCapabilityMissing(layer.String())
	}
	return l, nil
}

// Layer converts a layer.
func Layer(l files.Layer) filesystemv1.Layer {
	switch l {
	case files.LayerBucket:
		return filesystemv1.Layer_LAYER_BUCKET
	case files.LayerUser:
		return filesystemv1.Layer_LAYER_USER
	case files.LayerTemplate:
		return filesystemv1.Layer_LAYER_TEMPLATE
	}
	return filesystemv1.Layer_LAYER_UNSPECIFIED
}

func infoOf(e files.Entry) *filesystemv1.FileInfo {
	out := &filesystemv1.FileInfo{
		Kind: filesystemv1.FileKind_FILE_KIND_FILE, SizeBytes: e.Size, Revision: e.Revision, Sha256: e.SHA256,
		Layer: Layer(e.Layer), Shadows: e.Shadows, Mode: e.Mode, Author: e.Author,
	}
	out.Path, out.PathBytes = pathText(e.Path)
	if e.Kind == files.KindDir {
		out.Kind = filesystemv1.FileKind_FILE_KIND_DIRECTORY
	}
	if !e.ModTime.IsZero() {
		out.ModifyTime = timestamppb.New(e.ModTime)
	}
	return out
}

// pathText gives a path as text, and its bytes where they are none.
func pathText(p fsops.Path) (string, []byte) {
	text, changed := fsops.Text(p.String())
	if changed {
		return text, []byte(p.String())
	}
	return text, nil
}

func infosOf(entries []files.Entry) []*filesystemv1.FileInfo {
	out := make([]*filesystemv1.FileInfo, len(entries))
	for i, e := range entries {
		out[i] = infoOf(e)
	}
	return out
}

func modeOf(mode filesystemv1.WriteMode) files.Mode {
	switch mode {
	case filesystemv1.WriteMode_WRITE_MODE_CREATE:
		return files.Create
	case filesystemv1.WriteMode_WRITE_MODE_IF_REVISION:
		return files.IfRevision
	}
	return files.Overwrite
}

func changeOf(c files.Change) *filesystemv1.Change {
	out := &filesystemv1.Change{
		Cursor: c.Cursor.String(), Revision: c.Revision, Author: c.Author, Time: timestamppb.New(c.Time),
		Kind: map[files.ChangeKind]filesystemv1.ChangeKind{
			files.ChangeWritten: filesystemv1.ChangeKind_CHANGE_KIND_WRITTEN, files.ChangeDeleted: filesystemv1.ChangeKind_CHANGE_KIND_DELETED,
			files.ChangeMoved: filesystemv1.ChangeKind_CHANGE_KIND_MOVED,
		}[c.Kind],
	}
	out.Path, _ = pathText(c.Path)
	out.FromPath, _ = pathText(c.From)
	return out
}

// UsageOf converts usage.
func UsageOf(u files.Usage, l files.Limits) *filesystemv1.Usage {
	return &filesystemv1.Usage{UsedBytes: u.Bytes, LimitBytes: l.Bytes, UsedFiles: u.Files, LimitFiles: l.Files, LimitFileBytes: l.FileBytes}
}
