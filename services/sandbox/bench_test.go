package sandbox_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/services/sandbox"
)

// measure runs f b.N times and reports the median and the 99th percentile beside the mean.
func measure(b *testing.B, f func()) {
	b.Helper()
	f()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		f()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkPlainExec is what the operating system takes for a process without isolation.
func BenchmarkPlainExec(b *testing.B) {
	measure(b, func() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRunCommand is a whole unary call with the chain of interceptors, to a sandbox that lives.
func BenchmarkRunCommand(b *testing.B) {
	needNamespace(b)
	c := pb.NewSandboxServiceClient(inMemory(b, settings(b), sandbox.Deps{}))
	defer c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-", Force: true})
	measure(b, func() {
		resp, err := c.RunCommand(as("ana"), &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"/bin/true"}}})
		if err != nil || resp.GetExit().GetCode() != 0 {
			b.Fatal(resp, err)
		}
	})
}

// BenchmarkColdStart is a new sandbox with its first command.
func BenchmarkColdStart(b *testing.B) {
	needNamespace(b)
	c := pb.NewSandboxServiceClient(inMemory(b, settings(b), sandbox.Deps{}))
	measure(b, func() {
		resp, err := c.RunCommand(as("ana"), &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"/bin/true"}}})
		if err != nil || resp.GetExit().GetCode() != 0 {
			b.Fatal(resp, err)
		}
		b.StopTimer()
		if _, err := c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-", Force: true}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	})
}

// BenchmarkSnapshot is a snapshot of 1,000 small files.
func BenchmarkSnapshot(b *testing.B) {
	needNamespace(b)
	c := pb.NewSandboxServiceClient(inMemory(b, settings(b), sandbox.Deps{}))
	defer c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-", Force: true})
	if _, err := c.RunCommand(as("ana"), sh("mkdir d; for i in $(seq 1000); do echo content $i > d/f$i; done")); err != nil {
		b.Fatal(err)
	}
	measure(b, func() {
		if _, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"}); err != nil {
			b.Fatal(err)
		}
	})
}
