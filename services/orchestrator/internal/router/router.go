// Package router serves one FilesystemService over two: the workspace service has every path of the layout, the sandbox
// service everything else. Tools and clients see one tree.
//
// An operation on one path goes to its owner as it is, identity and effect id included. Only four things need the router's
// own work: listings and searches that span both trees, and moves from one to the other.
package router

import (
	"context"
	"path"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Domain is the domain of the errors of this package.
const Domain = "gantry.filesystem.v1"

// layout holds the first names of all paths that belong to the workspace service whatever the mode.
var layout = map[string]bool{
	"AGENTS.md": true, "MEMORY.md": true, "tools.json": true, "agent.yaml": true, "memory": true, "knowledge": true, "skills": true,
	"subagents": true, "plans": true, "agents": true, "large_tool_results": true, "project": true,
}

// Owns says whether a path belongs to the layout.
func Owns(p string) bool {
	first, _, _ := strings.Cut(clean(p), "/")
	return layout[first]
}

// clean resolves a path as the services do; what leaves the root stays as it is and is refused there.
func clean(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// Mode says which trees a call has.
type Mode uint8

// The modes.
const (
	Store   Mode = iota // the workspace service alone
	Sandbox             // layout paths in the workspace service, all others in the sandbox
)

// Router implements FilesystemService.
type Router struct {
	fsv1.UnimplementedFilesystemServiceServer
	workspace, sandbox fsv1.FilesystemServiceClient
	mode               func(context.Context) (Mode, error)
}

// New makes a router. mode tells, for the identity in a call's context, which trees its agent has.
func New(workspace, sandbox fsv1.FilesystemServiceClient, mode func(context.Context) (Mode, error)) *Router {
	return &Router{workspace: workspace, sandbox: sandbox, mode: mode}
}

// owner gives the service that has a path.
func (r *Router) owner(ctx context.Context, p string) (fsv1.FilesystemServiceClient, error) {
	mode, err := r.mode(ctx)
	if err != nil {
		return nil, err
	}
	if mode == Store || Owns(p) {
		return r.workspace, nil
	}
	return r.sandbox, nil
}

// spans says whether a directory has entries in both trees: only the root does.
func (r *Router) spans(ctx context.Context, dir string) (bool, error) {
	mode, err := r.mode(ctx)
	return mode == Sandbox && clean(dir) == "", err
}

// GetCapabilities gives what holds for every path.
func (r *Router) GetCapabilities(ctx context.Context, req *fsv1.GetCapabilitiesRequest) (*fsv1.GetCapabilitiesResponse, error) {
	got, err := r.workspace.GetCapabilities(ctx, req)
	if err != nil {
		return nil, err
	}
	mode, err := r.mode(ctx)
	if err != nil || mode == Store {
		return got, err
	}
	inside, err := r.sandbox.GetCapabilities(ctx, req)
	if err != nil {
		return nil, err
	}
	return &fsv1.GetCapabilitiesResponse{
		RevisionsGuardAllWriters: got.GetRevisionsGuardAllWriters() && inside.GetRevisionsGuardAllWriters(),
		Effects:                  got.GetEffects() && inside.GetEffects(),
		Backend:                  "router", ArbitraryNames: got.GetArbitraryNames() && inside.GetArbitraryNames(),
	}, nil
}

func unsupported(capability, why string) error {
	return errdefs.New(errdefs.ErrUnimplemented, Domain, "CAPABILITY_MISSING", "%s", why).With("capability", capability)
}
