package testkit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// DockerEnv names a Docker Engine to use instead of one that the kit starts, as DOCKER_HOST does: "unix:///path".
const DockerEnv = "GANTRY_TEST_DOCKER"

// insideEnv tells a test binary that it was started again inside the engine's network namespace.
const insideEnv = "GANTRY_TESTKIT_INSIDE"

// Engine is a running Docker Engine.
type Engine struct {
	// Host is the value for DOCKER_HOST.
	Host string
	// PID is a process in the engine's network namespace, 0 when the engine shares that of the test.
	PID int
}

// Docker returns a Docker Engine. Without DockerEnv it is Debian's dockerd, started once for the test binary in a network
// and a mount namespace of its own, so that it changes neither the host's firewall nor its mounts. It has no images and
// reaches no registry: see [Engine.HostImage]. Ports that containers publish are on the loopback of its namespace: see
// [InDocker].
func Docker(tb testing.TB) Engine {
	tb.Helper()
	e, err := dockerEngine()
	if err != nil {
		Skip(tb, "docker", "%v", err)
	}
	return e
}

var dockerEngine = sync.OnceValues(func() (Engine, error) {
	if host := os.Getenv(insideEnv); host != "" {
		return Engine{Host: host}, nil
	}
	if host := os.Getenv(DockerEnv); host != "" {
		return Engine{Host: host}, nil
	}
	return startDocker()
})

func startDocker() (Engine, error) {
	if os.Geteuid() != 0 {
		return Engine{}, fmt.Errorf("an engine can be started by root only, and %s is not set", DockerEnv)
	}
	for _, program := range []string{"dockerd", "unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return Engine{}, fmt.Errorf("%w (apt-get install docker.io util-linux iproute2)", err)
		}
	}
	dir, err := os.MkdirTemp("", "gantry-docker-")
	if err != nil {
		return Engine{}, err
	}
	socket, pidfile := "unix://"+filepath.Join(dir, "docker.sock"), filepath.Join(dir, "docker.pid")
	w, err := startWatched(dir, "TERM", 20, nil, []string{"unshare", "-n", "-m", "--propagation", "private"}, nil,
		"sh", "-c", `ip link set lo up; exec dockerd "$@"`, "dockerd",
		"-H", socket, "--pidfile", pidfile, "--data-root", filepath.Join(dir, "root"), "--exec-root", filepath.Join(dir, "exec"))
	if err != nil {
		return Engine{}, err
	}
	deadline := time.Now().Add(time.Minute)
	for {
		e := Engine{Host: socket}
		if b, err := os.ReadFile(pidfile); err == nil {
			e.PID, _ = strconv.Atoi(strings.TrimSpace(string(b))) // a half-written file is read again
		}
		if e.PID > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err := e.Command(ctx, "docker", "version").Run()
			cancel()
			if err == nil {
				return e, nil
			}
		}
		if time.Now().After(deadline) {
			w.stop()
			return Engine{}, fmt.Errorf("dockerd does not answer:\n%s", w.tail())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Command is a command in the engine's network namespace, with DOCKER_HOST set and testcontainers told to do without its
// reaper, whose image no registry gives us: what a test starts it must remove.
func (e Engine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if e.PID > 0 {
		args = append([]string{"--net=/proc/" + strconv.Itoa(e.PID) + "/ns/net", "--", name}, args...)
		name = "nsenter"
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.Host, "TESTCONTAINERS_RYUK_DISABLED=true", "TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1", "DOCKER_BUILDKIT=0")
	return cmd
}

// Run runs a docker command and returns its output; a failure fails the test.
func (e Engine) Run(tb testing.TB, args ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 5*time.Minute)
	defer cancel()
	out, err := e.Command(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		tb.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// InDocker runs the body of a test where the ports of containers can be reached: in the engine's network namespace. A
// process cannot change its namespace with all its threads, so the test binary is started again inside, for this test
// alone, and its result is the result of the test. In the body DOCKER_HOST is set.
func InDocker(t *testing.T, body func(t *testing.T, e Engine)) {
	t.Helper()
	e := Docker(t)
	if e.PID == 0 {
		t.Setenv("DOCKER_HOST", e.Host)
		t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
		body(t, e)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := e.Command(ctx, os.Args[0], "-test.run="+runPattern(t.Name()), "-test.v=true", "-test.count=1")
	cmd.Env = append(cmd.Env, insideEnv+"="+e.Host)
	out, err := cmd.CombinedOutput()
	t.Logf("inside the engine's network namespace:\n%s", out)
	if err != nil {
		t.Fatalf("inside the engine's network namespace: %v", err)
	}
	if strings.Contains(string(out), "\n--- SKIP: "+t.Name()+" ") {
		Skip(t, "docker", "the test skips itself inside the engine's network namespace")
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Fatal("the test did not run inside the engine's network namespace")
	}
}

// runPattern matches one test or subtest by its full name.
func runPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
