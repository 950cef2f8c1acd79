package sandboxtest

import (
	"testing"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

var laterCases = []Case{
	{"what is not offered says so, with a reason", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		id := "0000000000000000000000000000000000000000000000000000000000000000"
		for name, call := range map[string]func() error{
			"Fork":      func() error { _, err := e.Sandbox.Fork(ctx, &pb.ForkRequest{SnapshotId: id, Session: "s"}); return err },
			"dedicated": func() error { _, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{Dedicated: true}); return err },
			"terminal": func() error {
				_, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"true"}, Terminal: &pb.Terminal{}}})
				return err
			},
			"network": func() error {
				_, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{Spec: &pb.SandboxSpec{Network: &pb.Network{Allow: []string{"example.org:443"}}}})
				return err
			},
			"image": func() error {
				_, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{Spec: &pb.SandboxSpec{Image: "debian"}})
				return err
			},
			"secrets": func() error {
				_, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"true"}, Secrets: []string{"k"}}})
				return err
			},
		} {
			refused(tb, name, call(), errdefs.ErrUnimplemented, "NOT_IMPLEMENTED")
		}
		caps, err := e.Files.GetCapabilities(ctx, &fspb.GetCapabilitiesRequest{})
		if err != nil {
			tb.Fatal(err)
		}
		if !caps.GetHistory() {
			_, err := e.Files.ListRevisions(ctx, &fspb.ListRevisionsRequest{Path: "a"})
			refused(tb, "history", err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		}
		if !caps.GetLayers() {
			_, err := e.Files.Stat(ctx, &fspb.StatRequest{Path: "a", Layer: fspb.Layer_LAYER_TEMPLATE})
			refused(tb, "layers", err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		}
	}},
	{"a probe names what works and how to get the rest", func(tb testing.TB, e *Env) {
		resp, err := e.Sandbox.Probe(e.As("ana"), &pb.ProbeRequest{})
		if err != nil || resp.GetDefaultDriver() == "" || len(resp.GetDrivers()) == 0 {
			tb.Fatalf("Probe: %v %v", resp, err)
		}
		for _, d := range resp.GetDrivers() {
			for _, f := range d.GetFeatures() {
				if f.GetName() == "" || !f.GetAvailable() && f.GetFix() == "" {
					tb.Errorf("%s: %v", d.GetDriver(), f)
				}
			}
		}
	}},
}
