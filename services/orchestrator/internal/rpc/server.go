// Package rpc serves the orchestrator's services: it validates, resolves whose call it is, and hands over to the packages that do the work.
package rpc

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/identity/idmeta"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/kit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/models"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

// Deps are what the services work with.
type Deps struct {
	Runs      *run.Manager
	Kits      *kit.Kits
	Loader    *definition.Loader
	Models    *models.Models
	Threads   threadv1.ThreadServiceClient
	Workspace workspacev1.WorkspaceServiceClient
	Files     fsv1.FilesystemServiceClient
	// Tasks answers and cancels runs of tasks. Nil: there are none.
	Tasks taskv1.TaskServiceClient
	Log   *slog.Logger
	Now   func() time.Time
}

// Server implements the services.
type Server struct{ Deps }

// New makes a server.
func New(d Deps) *Server { return &Server{d} }

// Register adds the services.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	orchestratorv1.RegisterRunServiceServer(r, &runServer{Server: s})
	orchestratorv1.RegisterAgentServiceServer(r, &agentServer{Server: s})
	orchestratorv1.RegisterThreadAdminServiceServer(r, &threadServer{Server: s})
	orchestratorv1.RegisterSkillServiceServer(r, &skillServer{Server: s})
	orchestratorv1.RegisterTrainingServiceServer(r, &trainingServer{})
}

// identify resolves whose run a call is about to start: a fresh session when it names none, the agent's default scope when it names none, and refuses scopes that
// the agent does not allow. The definition comes along, since it had to be loaded. The errors of loading are those of the call.
func (s *Server) identify(ctx context.Context) (context.Context, identity.Identity, *definition.Definition, error) {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return nil, id, nil, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, identity.ReasonRequired, "the call has no identity")
	}
	if id.Session == "" {
		id.Session = run.NewSession()
	}
	ctx = identity.NewContext(ctx, id)
	d, err := s.Loader.Load(ctx)
	if err != nil {
		return nil, id, nil, err
	}
	if id.ScopeUnset {
		if want := d.Spec.GetScope(); want != 0 {
			id.Scope = run.ScopeOf(want)
		}
		id.ScopeUnset = false
		ctx = identity.NewContext(ctx, id)
	}
	if err := allowed(ctx, d, id.Scope); err != nil {
		return nil, id, nil, err
	}
	return ctx, id, d, nil
}

// allowed checks the scope against what the agent and the credential allow.
func allowed(ctx context.Context, d *definition.Definition, scope identity.Scope) error {
	names, ok := "session,user", scope == identity.ScopeSession || scope == identity.ScopeUser
	if list := d.Spec.GetAllowedScopes(); len(list) > 0 {
		names, ok = "", false
		for _, a := range list {
			if names != "" {
				names += ","
			}
			names += run.ScopeOf(a).String()
			ok = ok || run.ScopeOf(a) == scope
		}
	}
	if d.Spec.GetScope() != 0 && run.ScopeOf(d.Spec.GetScope()) == scope {
		ok = true
	}
	if g, has := access.FromContext(ctx); ok && has {
		ok = g.AllowsScope(scope)
	}
	if ok {
		return nil
	}
	return errdefs.New(errdefs.ErrPermissionDenied, run.Domain, "SCOPE_NOT_ALLOWED", "the scope %s is not allowed here", scope).With("scope", scope.String()).With("allowed", names)
}

// tellSession returns the session of the call as a header, so that a caller without one learns it before anything else.
func tellSession(ctx context.Context, id identity.Identity) error {
	return grpc.SetHeader(ctx, metadata.Pairs(idmeta.KeySession, idmeta.Encode(id.Session)))
}

func missing(capability string) error {
	return errdefs.New(errdefs.ErrUnimplemented, run.Domain, "CAPABILITY_MISSING", "%s is not in this version", capability).With("capability", capability)
}

func invalid(field, format string, args ...any) error {
	return errdefs.New(errdefs.ErrInvalidArgument, run.Domain, "SPEC_INVALID", format, args...).With("field", field)
}
