package definition

import (
	"context"
	"fmt"
	"sync"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// maxCached bounds the definitions kept; a full cache is emptied, which costs one round trip each.
const maxCached = 4096

// Loader reads definitions from the workspace service and keeps them by bucket and fingerprint: an unchanged definition costs one small
// round trip.
type Loader struct {
	workspace workspacev1.WorkspaceServiceClient
	files     fsv1.FilesystemServiceClient // for additional context files

	mu     sync.Mutex
	cached map[identity.Bucket]*Definition
}

// NewLoader makes a loader.
func NewLoader(workspace workspacev1.WorkspaceServiceClient, files fsv1.FilesystemServiceClient) *Loader {
	return &Loader{workspace: workspace, files: files, cached: map[identity.Bucket]*Definition{}}
}

// Load gives the definition of the agent of the context's identity, as its bucket sees it. AGENT_NOT_FOUND when the tenant has no such agent,
// DEFINITION_INVALID when a file that must be right can't be used.
func (l *Loader) Load(ctx context.Context, additional ...string) (*Definition, error) {
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	id, _ := identity.FromContext(ctx)
	l.mu.Lock()
	known := l.cached[bucket]
	l.mu.Unlock()
	req := &workspacev1.GetDefinitionRequest{}
	if known != nil {
		req.IfChangedFrom = known.Revision
	}
	got, err := l.workspace.GetDefinition(ctx, req)
	if err != nil {
		return nil, err
	}
	d := known
	if !got.GetUnchanged() || d == nil {
		if d, err = fromProto(id.Agent, got.GetDefinition()); err != nil {
			return nil, err
		}
		l.keep(bucket, d)
	}
	if fatal := d.Fatal(); len(fatal) > 0 {
		p := fatal[0]
		place := p.GetPath()
		if p.GetLine() > 0 {
			place += fmt.Sprintf(":%d", p.GetLine())
		}
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, Domain, "DEFINITION_INVALID", "%s can't be used: %s", place, p.GetProblem()).
			With("path", p.GetPath()).With("problem", p.GetProblem()).With("line", fmt.Sprint(p.GetLine()))
	}
	return l.withAdditional(ctx, d, additional)
}

func (l *Loader) keep(bucket identity.Bucket, d *Definition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cached) >= maxCached {
		clear(l.cached)
	}
	l.cached[bucket] = d
}

// withAdditional reads the additional context files into a copy: they are required, so a missing one fails the call.
func (l *Loader) withAdditional(ctx context.Context, d *Definition, more []string) (*Definition, error) {
	paths := append(append([]string(nil), d.Spec.GetAdditionalContext()...), more...)
	if len(paths) == 0 {
		return d, nil
	}
	with := *d
	for _, p := range paths {
		got, err := l.files.Read(ctx, &fsv1.ReadRequest{Path: p})
		if err != nil {
			return nil, errdefs.New(errdefs.ErrFailedPrecondition, Domain, "DEFINITION_INVALID", "the additional context file %s can't be read: %w", p, err).With("path", p)
		}
		if got.GetMore() {
			return nil, errdefs.New(errdefs.ErrFailedPrecondition, Domain, "DEFINITION_INVALID", "the additional context file %s is too large for a request", p).With("path", p)
		}
		with.Additional = append(with.Additional, Text{Path: p, Revision: got.GetInfo().GetRevision(), Layer: got.GetInfo().GetLayer().String(), Text: got.GetText()})
	}
	return &with, nil
}
