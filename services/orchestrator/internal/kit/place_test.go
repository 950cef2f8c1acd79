package kit

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tools"
)

// probed is a sandbox service of which nothing but the probe is called.
type probed struct {
	sandboxv1.SandboxServiceClient
	answer *sandboxv1.ProbeResponse
	err    error
}

func (p probed) Probe(context.Context, *sandboxv1.ProbeRequest, ...grpc.CallOption) (*sandboxv1.ProbeResponse, error) {
	return p.answer, p.err
}

// A sandbox service that did not answer counted as none: runs that need it failed, and others went on with their files in another place.
func TestPlaceWaitsForASandboxServiceThatDoesNotAnswer(t *testing.T) {
	const unset, store, sandbox = orchestratorv1.FilesystemMode_FILESYSTEM_MODE_UNSPECIFIED, orchestratorv1.FilesystemMode_FILESYSTEM_MODE_STORE, orchestratorv1.FilesystemMode_FILESYSTEM_MODE_SANDBOX
	silent := probed{err: errdefs.New(errdefs.ErrUnavailable, errdefs.DomainCommon, "", "it restarts")}
	there := probed{answer: &sandboxv1.ProbeResponse{Drivers: []*sandboxv1.DriverProbe{{Available: true, Isolation: true}}}}
	none := probed{answer: &sandboxv1.ProbeResponse{}}
	for _, c := range []struct {
		name    string
		service sandboxv1.SandboxServiceClient
		mode    orchestratorv1.FilesystemMode
		before  string // the place that the run had
		place   orchestratorv1.FilesystemMode
		err     error
	}{
		{"it is there", there, unset, "", sandbox, nil},
		{"it can make none", none, unset, "", store, nil},
		{"it can make none and must", none, sandbox, "", 0, errdefs.ErrFailedPrecondition},
		{"it does not answer", silent, unset, "", 0, errdefs.ErrUnavailable},
		{"it does not answer and must", silent, sandbox, "", 0, errdefs.ErrUnavailable},
		{"it does not answer and need not", silent, store, "", store, nil},
		{"no service", nil, unset, "", store, nil},
		{"a run that began without", there, unset, store.String(), store, nil},
		{"a run that began with one", silent, unset, sandbox.String(), 0, errdefs.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := New(Services{Sandbox: c.service, Now: time.Now})
			kit := kitOf(&orchestratorv1.AgentSpec{FilesystemMode: c.mode}, nil, nil, nil)
			kit.facts = run.Facts{Place: c.before}
			err := k.place(t.Context(), kit, &tools.Env{})
			if !errors.Is(err, c.err) {
				t.Fatalf("the error is %v, want %v", err, c.err)
			}
			if err == nil && kit.Place() != c.place.String() {
				t.Errorf("the place is %s, want %s", kit.Place(), c.place)
			}
		})
	}
}
