package procs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
)

// Config says what to run.
type Config struct {
	// Bin is the folder of the programs. Empty: found by [Bin].
	Bin string
	// Dir is where each service gets a data directory of its own, and its log. It is made when it is missing.
	Dir string
	// Workspaces is a folder with one agent template a subfolder, and Workspace the template of the default agent. Empty: none.
	Workspaces, Workspace string
	// Model is the default model of runs. Empty: the orchestrator's choice.
	Model string
	// Addresses are host:port by service. A service that is missing gets a free port of the loopback.
	Addresses map[string]string
	// HTTPAddress is the gateway's. Empty: a free port of the loopback.
	HTTPAddress string
	// Args are further flags by service, after the usual ones.
	Args map[string][]string
	// Env are further variables, as in os.Environ.
	Env []string
}

// Cluster is the services as processes. It may be used by many goroutines.
type Cluster struct {
	cfg       Config
	launcher  *launcher
	addresses map[string]string

	mu      sync.Mutex
	members map[string]*process
	// order is that of the first starts; stops go backwards.
	order []string
}

// Start runs the six services and returns when all serve. On failure nothing is left running.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	for _, name := range Names {
		if err := c.launch(name, name, nil); err != nil {
			return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
	}
	for _, name := range Names {
		if err := c.ready(ctx, name); err != nil {
			return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
	}
	return c, nil
}

// New makes a cluster without starting anything: addresses are fixed, directories made.
func New(cfg Config) (*Cluster, error) {
	var err error
	if cfg.Bin == "" {
		if cfg.Bin, err = Bin(); err != nil {
			return nil, err
		}
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	for _, dir := range append([]string{"log", "keys"}, Names...) {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	free, err := freeAddresses(len(Names) + 1)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, launcher: newLauncher(), addresses: map[string]string{}, members: map[string]*process{}}
	for i, name := range Names {
		if c.addresses[name] = cfg.Addresses[name]; c.addresses[name] == "" {
			c.addresses[name] = free[i]
		}
	}
	if c.cfg.HTTPAddress == "" {
		c.cfg.HTTPAddress = free[len(Names)]
	}
	return c, nil
}

// freeAddresses finds ports that nobody uses now. All are held until all are found, so they differ.
func freeAddresses(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("procs: no free port: %w", err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// Address is where a service serves gRPC.
func (c *Cluster) Address(service string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses[service]
}

// HTTPAddress is where the gateway serves HTTP.
func (c *Cluster) HTTPAddress() string { return c.cfg.HTTPAddress }

// Dir is the data directory of a service.
func (c *Cluster) Dir(service string) string { return filepath.Join(c.cfg.Dir, service) }

// Log is the log of a service so far.
func (c *Cluster) Log(service string) string {
	text, err := os.ReadFile(c.logPath(service))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (c *Cluster) logPath(service string) string {
	return filepath.Join(c.cfg.Dir, "log", service+".log")
}

// LogTail is the end of the log of a service, for error messages.
func (c *Cluster) LogTail(service string) string {
	text := strings.TrimSpace(c.Log(service))
	return text[max(0, len(text)-logTail):]
}

// Conn connects to a service. The cluster closes it.
func (c *Cluster) Conn(service string) grpc.ClientConnInterface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[service].conn
}

// Launch starts one service that is not running, under its usual address and data directory, and waits until it serves.
func (c *Cluster) Launch(ctx context.Context, service string) error {
	if err := c.launch(service, service, nil); err != nil {
		return err
	}
	return c.ready(ctx, service)
}

// LaunchReplica starts a further replica of the orchestrator, under a name of its own and on a free address. It is then
// addressed by that name.
func (c *Cluster) LaunchReplica(ctx context.Context, name string) error {
	free, err := freeAddresses(1)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.addresses[name] = free[0]
	c.mu.Unlock()
	if err := c.launch(Orchestrator, name, []string{"--address=" + free[0], "--replica=" + name}); err != nil {
		return err
	}
	return c.ready(ctx, name)
}

func (c *Cluster) launch(service, name string, extra []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.members[name]; old != nil && !old.done() {
		return fmt.Errorf("procs: %s runs already", name)
	}
	args := append(append(c.args(service), c.cfg.Args[service]...), extra...)
	p, err := start(c.launcher, name, filepath.Join(c.cfg.Bin, service), args, c.cfg.Env, c.addresses[name], c.logPath(name))
	if err != nil {
		return err
	}
	if old := c.members[name]; old != nil {
		old.conn.Close()
	}
	c.members[name] = p
	if !slices.Contains(c.order, name) { // one that is started again keeps its place: others need it until they have stopped
		c.order = append(c.order, name)
	}
	return nil
}

func (c *Cluster) member(name string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.members[name]
	if p == nil {
		return nil, fmt.Errorf("procs: %s was never started", name)
	}
	return p, nil
}

func (c *Cluster) ready(ctx context.Context, name string) error {
	p, err := c.member(name)
	if err != nil {
		return err
	}
	return p.ready(ctx)
}

// Kill ends one process as a crash would (SIGKILL).
func (c *Cluster) Kill(name string) error {
	p, err := c.member(name)
	if err != nil {
		return err
	}
	return p.kill()
}

// Stop ends all processes, the last one first, and returns what went wrong in any. Nothing can be started afterwards.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.stopMembers(ctx)
	c.launcher.close()
	return err
}

func (c *Cluster) stopMembers(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, name := range slices.Backward(c.order) {
		errs = append(errs, c.members[name].stop(ctx))
	}
	c.order = nil
	return errors.Join(errs...)
}

// Restart ends all processes in good order and starts the six services again on the same addresses and data.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.stopMembers(ctx); err != nil {
		return err
	}
	for _, name := range Names {
		if err := c.launch(name, name, nil); err != nil {
			return err
		}
	}
	for _, name := range Names {
		if err := c.ready(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
