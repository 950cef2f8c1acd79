// Package rpc serves gantry.sandbox.v1.SandboxService, and gantry.filesystem.v1.FilesystemService for the files inside, on the domain of package sandbox.
package rpc

import (
	"context"
	"time"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var _ pb.SandboxServiceServer = (*Server)(nil)

// Server serves SandboxService.
type Server struct {
	pb.UnimplementedSandboxServiceServer
	m   *sandbox.Manager
	now func() time.Time
}

// New returns the server.
func New(m *sandbox.Manager, now func() time.Time) *Server { return &Server{m: m, now: now} }

// caller is who calls, and which sandbox is meant.
type caller struct {
	bucket  string
	tenant  string
	sandbox string // empty: the bucket's
	effect  string
}

// who reads the identity of a call. id is the sandbox that the request names.
func who(ctx context.Context, id string) (caller, error) {
	b, err := identity.BucketFromContext(ctx)
	if err != nil {
		return caller{}, err
	}
	c := caller{bucket: b.Key(), tenant: b.Tenant, sandbox: id}
	if c.sandbox == "-" {
		c.sandbox = ""
	}
	if who, ok := identity.FromContext(ctx); ok {
		c.effect = who.Effect
		if c.sandbox == "" {
			c.sandbox = who.Sandbox
		}
	}
	return c, nil
}

// checkEffect refuses an effect id that is so old that its record may be gone.
func (s *Server) checkEffect(id string) error {
	if id == "" {
		return nil
	}
	if effect.Expired(id, s.now()) {
		return sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonEffectExpired, "the effect id is older than six days; its outcome is not known any more").With("effect", id)
	}
	return nil
}

// want is what sandbox a request asks for.
func want(spec *pb.SandboxSpec) (sandbox.Want, error) {
	if len(spec.GetNetwork().GetAllow()) > 0 {
		return sandbox.Want{}, sandbox.Unimplemented("network.allow", "sandboxes have no network in this version")
	}
	if spec.GetImage() != "" {
		return sandbox.Want{}, sandbox.Unimplemented("image", "set the root file system of the service instead")
	}
	l := spec.GetLimits()
	return sandbox.Want{
		Driver: spec.GetDriver(), HostDir: spec.GetHostDir(), Idle: spec.GetIdleTimeout().AsDuration(),
		Limits: sandbox.Limits{
			MemoryBytes: l.GetMemoryBytes(), Processes: l.GetProcesses(), CPUMilli: l.GetCpuMilli(), DiskBytes: l.GetDiskBytes(),
			DiskEntries: l.GetDiskEntries(), TempBytes: l.GetTempBytes(), OpenFiles: l.GetOpenFiles(), FileBytes: l.GetFileBytes(),
		},
	}, nil
}

// use holds the sandbox that a request means for the time of the call. The call is told what is lost, see [sandbox.Want].
func (s *Server) use(ctx context.Context, id string, token int64, spec *pb.SandboxSpec) (caller, *sandbox.Live, func(), error) {
	c, err := who(ctx, id)
	if err != nil {
		return c, nil, nil, err
	}
	w, err := want(spec)
	if err != nil {
		return c, nil, nil, err
	}
	w.Tell, w.Effect = true, c.effect
	l, release, err := s.m.Use(ctx, c.bucket, c.sandbox, token, w)
	return c, l, release, err
}

// existing holds a sandbox that lives already.
func (s *Server) existing(ctx context.Context, id string, token int64) (*sandbox.Live, func(), error) {
	c, err := who(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.m.Find(c.bucket, c.sandbox)
	if err != nil {
		return nil, nil, err
	}
	return s.hold(ctx, c, l, token)
}

func (s *Server) hold(ctx context.Context, c caller, l *sandbox.Live, token int64) (*sandbox.Live, func(), error) {
	return s.m.Use(ctx, c.bucket, l.Instance.Spec().ID, token, sandbox.Want{})
}
