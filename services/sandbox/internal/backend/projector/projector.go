// Package projector takes projections from the workspace service by its generated client, and keeps the contents that it has fetched in a directory, so that the
// next sandbox with the same files costs no transfer.
package projector

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	workspacepb "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var _ sandbox.Projector = (*Projector)(nil)

const (
	// maxFile bounds one projected file: it is held in memory until its hash is known.
	maxFile = 64 << 20
	// maxBatch is how many files one request names.
	maxBatch = 1000
)

// Projector asks one workspace service.
type Projector struct {
	client workspacepb.WorkspaceServiceClient
	dir    string
}

// New returns a projector that caches in dir. Contents of different tenants are kept apart: whether somebody else has the same bytes is nobody's business.
func New(client workspacepb.WorkspaceServiceClient, dir string) *Projector {
	return &Projector{client: client, dir: dir}
}

// List implements [sandbox.Projector].
func (p *Projector) List(ctx context.Context, include []string, runtime bool) (sandbox.Projection, error) {
	resp, err := p.client.GetManifest(withoutEffect(ctx), &workspacepb.GetManifestRequest{Include: include, IncludeRuntime: runtime})
	if err != nil {
		return sandbox.Projection{}, err
	}
	out := sandbox.Projection{Fingerprint: resp.GetFingerprint(), Warnings: resp.GetWarnings()}
	for _, e := range resp.GetEntries() {
		out.Files = append(out.Files, sandbox.ProjectedFile{
			Path: e.GetPath(), SHA256: e.GetSha256(), Size: e.GetSizeBytes(), Mode: fs.FileMode(e.GetMode()).Perm(),
		})
	}
	return out, nil
}

// withoutEffect removes the effect id of the command that is about to run: it does not stand for what is read on the way.
func withoutEffect(ctx context.Context) context.Context {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return ctx
	}
	id.Effect = ""
	return identity.NewContext(ctx, id)
}

// Fetch implements [sandbox.Projector].
func (p *Projector) Fetch(ctx context.Context, files []sandbox.ProjectedFile, write func(sandbox.ProjectedFile, io.Reader) error) error {
	cache := p.cache(ctx)
	var missing []sandbox.ProjectedFile
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(cache, f.SHA256))
		if err != nil || sum(content) != f.SHA256 {
			missing = append(missing, f)
			continue
		}
		if err := write(f, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	for len(missing) > 0 {
		n := min(len(missing), maxBatch)
		if err := p.fetch(ctx, cache, missing[:n], write); err != nil {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

// fetch streams one batch.
func (p *Projector) fetch(ctx context.Context, cache string, files []sandbox.ProjectedFile, write func(sandbox.ProjectedFile, io.Reader) error) error {
	req := &workspacepb.FetchBlobsRequest{}
	byPath := map[string]sandbox.ProjectedFile{}
	for _, f := range files {
		req.Entries = append(req.Entries, &workspacepb.ManifestEntry{Path: f.Path, Sha256: f.SHA256, SizeBytes: f.Size})
		byPath[f.Path] = f
	}
	ctx, cancel := context.WithCancel(withoutEffect(ctx))
	defer cancel()
	stream, err := p.client.FetchBlobs(ctx, req)
	if err != nil {
		return err
	}
	var current *sandbox.ProjectedFile
	var content []byte
	finish := func() error {
		if current == nil {
			return nil
		}
		f := *current
		current = nil
		if sum(content) != f.SHA256 {
			return errdefs.New(errdefs.ErrDataLoss, sandbox.Domain, "", "the workspace service sent other bytes for %q than it had announced", f.Path)
		}
		p.keep(cache, f.SHA256, content)
		return write(f, bytes.NewReader(content))
	}
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errdefs.New(errdefs.ErrUnavailable, sandbox.Domain, "", "the workspace service ended the transfer early")
		}
		if err != nil {
			return err
		}
		switch part := msg.GetPart().(type) {
		case *workspacepb.FetchBlobsResponse_Header:
			if err := finish(); err != nil {
				return err
			}
			if f, ok := byPath[part.Header.GetPath()]; ok && f.SHA256 == part.Header.GetSha256() {
				current, content = &f, nil
			}
		case *workspacepb.FetchBlobsResponse_Chunk:
			if current == nil {
				continue
			}
			if content = append(content, part.Chunk...); len(content) > maxFile {
				return errdefs.New(errdefs.ErrResourceExhausted, sandbox.Domain, sandbox.ReasonSnapshotTooLarge, "%q is larger than %d bytes", current.Path, maxFile)
			}
		case *workspacepb.FetchBlobsResponse_End:
			return finish()
		}
	}
}

// cache is the directory of the caller's tenant.
func (p *Projector) cache(ctx context.Context) string {
	id, _ := identity.FromContext(ctx)
	tenant := id.Tenant
	if tenant == "" {
		tenant = identity.DefaultTenant
	}
	return filepath.Join(p.dir, identity.EncodeSegment(tenant))
}

// keep caches content. It is only a cache: failing is no failure.
func (p *Projector) keep(dir, sha256 string, content []byte) {
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	temp := filepath.Join(dir, "!"+rand.Text())
	if os.WriteFile(temp, content, 0o600) != nil || os.Rename(temp, filepath.Join(dir, sha256)) != nil {
		_ = os.Remove(temp)
	}
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}
