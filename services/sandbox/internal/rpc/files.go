package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var _ fspb.FilesystemServiceServer = (*Files)(nil)

// Files serves FilesystemService for the files inside. The sandbox is that of the caller's bucket, or the one in the metadata; it is started on first use, but not to
// read what is empty.
// Layers, history, change sets and watching are not offered: they are the workspace service's.
type Files struct {
	fspb.UnimplementedFilesystemServiceServer
	s *Server
}

// NewFiles returns the server.
func NewFiles(s *Server) *Files { return &Files{s: s} }

// inside is an open workspace for one call.
type inside struct {
	sandbox.Tree
	live *sandbox.Live // nil: it is read without a sandbox
	m    *sandbox.Manager
	done func()
}

// look opens the caller's workspace for reading. Where there is neither a sandbox nor a snapshot, what would be started is empty, and that is answered without it.
func (f *Files) look(ctx context.Context) (*inside, error) {
	c, err := who(ctx, "")
	if err != nil {
		return nil, err
	}
	if c.sandbox == "" {
		blank, err := f.s.m.Blank(ctx, c.bucket)
		if err != nil {
			return nil, err
		}
		if blank != nil {
			return &inside{Tree: blank, m: f.s.m, done: func() {}}, nil
		}
	}
	return f.open(ctx, false)
}

// open holds the caller's sandbox and opens its workspace. write marks it as changed.
func (f *Files) open(ctx context.Context, write bool) (*inside, error) {
	_, l, release, err := f.s.use(ctx, "", 0, nil)
	if err != nil {
		switch errdefs.ReasonOf(err) {
		case sandbox.ReasonDriverUnavailable, sandbox.ReasonDriverNotConfigured:
			var e *errdefs.Error
			errors.As(err, &e)
			return nil, fsops.ErrSandboxUnavailable(e.Public())
		}
		return nil, err
	}
	in := &inside{live: l, m: f.s.m, done: release}
	if write {
		changed, err := f.s.m.Changing(ctx, l)
		if err != nil {
			release()
			return nil, err
		}
		in.done = func() { changed(); release() }
	}
	if in.Tree, err = f.s.m.Files(ctx, l); err != nil {
		in.done()
		return nil, err
	}
	return in, nil
}

func (in *inside) close() {
	_ = in.Tree.Close()
	in.done()
}

// parse reads a path and checks that the caller's capability covers it.
func parse(ctx context.Context, text string) (fsops.Path, error) {
	p, err := fsops.ParsePath(text)
	if err != nil {
		return p, err
	}
	if grant, ok := access.FromContext(ctx); ok {
		return p, grant.CheckPath(p.String())
	}
	return p, nil
}

// noLayer refuses requests about the layers below the bucket.
func noLayer(l fspb.Layer) error {
	switch l {
	case fspb.Layer_LAYER_UNSPECIFIED, fspb.Layer_LAYER_BUCKET, fspb.Layer_LAYER_SANDBOX:
		return nil
	}
	return fsops.ErrCapabilityMissing("layers")
}

// locate finds the name under which a path is stored. A path that is not there in its own bytes may be in another Unicode normal form.
func (in *inside) locate(ctx context.Context, p fsops.Path) (string, error) {
	_, err := in.Lstat(ctx, p.String())
	if !errors.Is(err, errdefs.ErrNotFound) || isASCII(p.String()) {
		return p.String(), err
	}
	at := fsops.Path{}
	for _, name := range strings.Split(p.String(), "/") {
		list, err := in.ReadDir(ctx, at.String(), "", 0)
		if err != nil {
			return p.String(), err
		}
		next := at.Join(name)
		found := false
		for _, e := range list {
			if fsops.PathOf(e.Path).Key() == next.Key() {
				at, found = fsops.PathOf(e.Path), true
				break
			}
		}
		if !found {
			return p.String(), fsops.ErrNotFound(p.String())
		}
	}
	return at.String(), nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// target is locate for a path that may be made: then it keeps the bytes of the request.
func (in *inside) target(ctx context.Context, p fsops.Path) (name string, exists bool, err error) {
	name, err = in.locate(ctx, p)
	switch {
	case err == nil:
		return name, true, nil
	case errors.Is(err, errdefs.ErrNotFound):
		return p.String(), false, nil
	}
	return name, false, err
}

// info describes an entry.
func info(e sandbox.Entry, sum string) *fspb.FileInfo {
	out := &fspb.FileInfo{
		Kind: fspb.FileKind_FILE_KIND_FILE, SizeBytes: e.Size, ModifyTime: toTime(e.ModTime), Revision: e.Revision, Sha256: sum,
		Layer: fspb.Layer_LAYER_SANDBOX, Mode: uint32(e.Mode.Perm()),
	}
	text, changed := fsops.Text(e.Path)
	if out.Path = text; changed {
		out.PathBytes = []byte(e.Path)
	}
	if e.Kind == fs.ModeDir {
		out.Kind = fspb.FileKind_FILE_KIND_DIRECTORY
	}
	return out
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// sum hashes a file.
func (in *inside) sum(ctx context.Context, path string) (string, error) {
	f, err := in.Tree.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// GetCapabilities implements FilesystemService.
func (f *Files) GetCapabilities(context.Context, *fspb.GetCapabilitiesRequest) (*fspb.GetCapabilitiesResponse, error) {
	return &fspb.GetCapabilitiesResponse{Backend: "sandbox", ArbitraryNames: true, Effects: true}, nil
}

// Stat implements FilesystemService.
func (f *Files) Stat(ctx context.Context, req *fspb.StatRequest) (*fspb.StatResponse, error) {
	p, err := parse(ctx, req.GetPath())
	if err != nil {
		return nil, err
	}
	if err := noLayer(req.GetLayer()); err != nil {
		return nil, err
	}
	in, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	defer in.close()
	name, err := in.locate(ctx, p)
	if err != nil {
		return nil, err
	}
	e, err := in.Tree.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	sum := ""
	switch e.Kind {
	case 0:
		if sum, err = in.sum(ctx, name); err != nil {
			return nil, err
		}
	case fs.ModeDir:
	default:
		return nil, fsops.ErrNotRegular(p.String())
	}
	return &fspb.StatResponse{Info: info(e, sum)}, nil
}

// GetUsage implements FilesystemService.
func (f *Files) GetUsage(ctx context.Context, _ *fspb.GetUsageRequest) (*fspb.GetUsageResponse, error) {
	in, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if in.live != nil && !in.live.Caps.Limits {
		return nil, fsops.ErrCapabilityMissing("usage")
	}
	u, err := in.Usage(ctx)
	if err != nil {
		return nil, err
	}
	return &fspb.GetUsageResponse{Usage: &fspb.Usage{
		UsedBytes: u.Bytes, LimitBytes: u.LimitBytes, UsedFiles: u.Entries, LimitFiles: u.LimitEntries, LimitFileBytes: u.LimitFileBytes,
	}}, nil
}

// Watch implements FilesystemService.
func (f *Files) Watch(*fspb.WatchRequest, fspb.FilesystemService_WatchServer) error {
	return fsops.ErrCapabilityMissing("watch")
}

// ListRevisions implements FilesystemService.
func (f *Files) ListRevisions(context.Context, *fspb.ListRevisionsRequest) (*fspb.ListRevisionsResponse, error) {
	return nil, fsops.ErrCapabilityMissing("history")
}

// RestoreRevision implements FilesystemService.
func (f *Files) RestoreRevision(context.Context, *fspb.RestoreRevisionRequest) (*fspb.RestoreRevisionResponse, error) {
	return nil, fsops.ErrCapabilityMissing("history")
}

// DiffRevisions implements FilesystemService.
func (f *Files) DiffRevisions(context.Context, *fspb.DiffRevisionsRequest) (*fspb.DiffRevisionsResponse, error) {
	return nil, fsops.ErrCapabilityMissing("history")
}

// ApplyChanges implements FilesystemService.
func (f *Files) ApplyChanges(context.Context, *fspb.ApplyChangesRequest) (*fspb.ApplyChangesResponse, error) {
	return nil, fsops.ErrCapabilityMissing("change_sets")
}
