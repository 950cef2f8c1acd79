package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// oneProcess measures the suite in this process.
func (b *bencher) oneProcess(ctx context.Context, dir string) (err error) {
	if !b.wantedBelow("one_process_") {
		return nil
	}
	cfg := suite.DefaultConfig()
	cfg.Data, cfg.Workspaces, cfg.Script, cfg.Model, cfg.Ollama = filepath.Join(dir, "one"), filepath.Join(dir, "agents"), filepath.Join(dir, "script.yaml"), "scripted:script", "none"
	s, err := suite.Start(ctx, cfg, suite.Options{Private: true})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)), procs.EndSandboxes(dir))
	}()
	return b.place(ctx, "one_process_", memory, s.Conn)
}

// processes measures the services as processes.
func (b *bencher) processes(ctx context.Context, dir string) (err error) {
	if !b.wantedBelow("processes_") {
		return nil
	}
	c, err := procs.Start(ctx, procs.Config{
		Dir: filepath.Join(dir, "many"), Workspaces: filepath.Join(dir, "agents"), Model: "scripted:script",
		Args: map[string][]string{
			procs.Orchestrator: {"--model-script=" + filepath.Join(dir, "script.yaml"), "--ollama-url=none"}, procs.Sandbox: {"--release-on-stop"},
		},
	})
	if errors.Is(err, procs.ErrNoBinaries) {
		fmt.Fprintln(b.out, "bench: no figures across processes:", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)), procs.EndSandboxes(dir))
	}()
	if err := b.place(ctx, "processes_", tcp, c.Conn); err != nil {
		return err
	}
	// Over HTTP there is one more hop, and JSON.
	return b.unary(ctx, "processes_gateway", tcp, 2*hopGoal, rest("http://"+c.HTTPAddress()+"/v1/tasks"))
}

// place measures all calls and the loop over connections to services.
func (b *bencher) place(ctx context.Context, prefix string, over transport, conn func(string) grpc.ClientConnInterface) error {
	// The loop first: it leaves a run behind, which the orchestrator's call asks for.
	if err := b.loop(ctx, prefix+"tool_step", over, conn); err != nil {
		return err
	}
	session, err := oneRun(ctx, conn(procs.Orchestrator))
	if err != nil {
		return err
	}
	for _, c := range callsOf(conn) {
		if err := b.unary(as(ctx, session), prefix+c.service, over, c.hops*hopGoal, c.do); err != nil {
			return err
		}
	}
	return nil
}

// rest makes a GET by the user of the benchmark.
func rest(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{}} // loopback: no proxy
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Gantry-Agent", agent)
		req.Header.Set("Gantry-User", "bench")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, body)
		}
		return err
	}
}
