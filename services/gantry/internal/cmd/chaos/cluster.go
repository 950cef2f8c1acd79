package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest/ledger"
)

// second is the other replica of the orchestrator.
const second = "orchestrator-2"

// replicas are those that clients talk to.
var replicas = []string{procs.Orchestrator, second}

// victims are what dies, the orchestrators as often as all others together.
var victims = []string{procs.Orchestrator, second, procs.Orchestrator, second, procs.Workspace, procs.Sandbox, procs.Task, procs.Memory}

const (
	// maxAlive bounds the time between a start and the next kill, maxDown how long what was killed stays away.
	maxAlive, maxDown = 500 * time.Millisecond, 400 * time.Millisecond
	// bootTime bounds the start of a process.
	bootTime = 30 * time.Second
)

// cluster is the services, and what kills them.
type cluster struct {
	*procs.Cluster
	dir    string
	ledger *ledger.Ledger
	books  *http.Server

	mu    sync.Mutex
	kills map[string][]time.Time // by name
}

// newCluster starts the services and the second replica.
func newCluster(ctx context.Context, dir, postgres string) (*cluster, error) {
	c := &cluster{dir: dir, kills: map[string][]time.Time{}}
	address, err := c.keepBooks()
	if err != nil {
		return nil, err
	}
	script, workspaces, err := prepare(dir, address)
	if err != nil {
		return nil, err
	}
	cfg := procs.Config{
		Dir: dir, Workspaces: workspaces, Model: "scripted:script",
		Args: map[string][]string{
			procs.Orchestrator: {"--model-script=" + script, "--ollama-url=none", "--mcp-private"},
		},
	}
	if postgres != "" {
		cfg.Args[procs.Workspace] = []string{"--backend=postgres", "--postgres-dsn=" + postgres}
	}
	if c.Cluster, err = procs.Start(ctx, cfg); err != nil {
		return nil, err
	}
	if err := c.LaunchReplica(ctx, second); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// keepBooks serves the ledger, which is outside of Gantry and never dies.
func (c *cluster) keepBooks() (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	c.ledger = ledger.Open(filepath.Join(c.dir, "ledger"))
	c.books = &http.Server{Handler: c.ledger.Handler(), ReadHeaderTimeout: bootTime}
	go func() { _ = c.books.Serve(l) }() // until it is closed
	return "http://" + l.Addr().String(), nil
}

// close ends everything.
func (c *cluster) close() {
	defer c.books.Close()
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		fmt.Println("chaos: stop:", err)
	}
	if err := procs.EndSandboxes(filepath.Join(c.dir, procs.Sandbox)); err != nil {
		fmt.Println("chaos: stop:", err)
	}
}

// rampage kills one process after another until ctx ends, and starts each again. When it returns all processes are there.
func (c *cluster) rampage(ctx context.Context, rng *rand.Rand) error {
	for {
		if pause(ctx, rand.N(maxAlive)) != nil {
			return nil
		}
		name := victims[rng.IntN(len(victims))]
		if err := c.kill(name); err != nil {
			return err
		}
		_ = pause(ctx, time.Duration(rng.Int64N(int64(maxDown))))
		if err := c.revive(context.WithoutCancel(ctx), name); err != nil {
			return err
		}
	}
}

func (c *cluster) kill(name string) error {
	c.mu.Lock()
	c.kills[name] = append(c.kills[name], time.Now())
	c.mu.Unlock()
	return c.Kill(name)
}

func (c *cluster) revive(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if name == second {
		return c.LaunchReplica(ctx, name)
	}
	return c.Launch(ctx, name)
}

// killed is when a process was last killed before a time; false when it never was.
func (c *cluster) killed(name string, before time.Time) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.kills[name]) - 1; i >= 0; i-- {
		if at := c.kills[name][i]; at.Before(before) {
			return at, true
		}
	}
	return time.Time{}, false
}

// storeDown is how long before a time a kill of the workspace service may still have kept the journal from answering.
const storeDown = maxDown + 2*time.Second

// withStore says whether the journal was there all the time: without it nobody can take anything over.
func (c *cluster) withStore(from, to time.Time) bool {
	at, ok := c.killed(procs.Workspace, to)
	return !ok || at.Before(from.Add(-storeDown))
}

// deaths counts the kills.
func (c *cluster) deaths() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for name, at := range c.kills {
		out[name] = len(at)
	}
	return out
}

// conn connects to a replica at random.
func (c *cluster) replica() grpc.ClientConnInterface {
	return c.Conn(replicas[rand.IntN(len(replicas))])
}

// pause waits; its error is that of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
