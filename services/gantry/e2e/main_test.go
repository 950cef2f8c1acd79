package e2e_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/e2e"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
	"github.com/gantry-agents/gantry/services/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.MaybeInit() // a sandbox of the suite in this process begins as a copy of this binary
	if os.Getenv(asCLI) != "" {
		os.Exit(cliMain())
	}
	os.Exit(m.Run())
}

// secret signs the clients' tokens of the tests.
const secret = "a secret for tests, of enough bytes"

// auth is the setting of all suites here: tenants come from credentials, so there must be some.
func auth() access.Config {
	return access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: config.Secret(secret)}
}

// authArgs are the same as flags.
func authArgs() []string {
	return []string{"--auth-mode=jwt", "--auth-jwt-algorithm=HS256", "--auth-jwt-key=" + secret}
}

// token is a credential for a user of a tenant.
func token(t *testing.T, tenant, user string) string {
	return sign(t, access.ClientClaims{Tenant: tenant, User: user, Agents: []string{"*"}, Verbs: []string{"*"}})
}

func sign(t *testing.T, claims access.ClientClaims) string {
	t.Helper()
	claims.ExpiresAt = jwt.NewNumericDate(time.Now().Add(time.Hour))
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// warnings is a log that shows in the test what went wrong.
func warnings(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// inProcess is the suite in the test's process.
type inProcess struct {
	cfg     suite.Config
	options suite.Options
	running *suite.Suite
}

func newInProcess(t *testing.T) *inProcess {
	p := &inProcess{cfg: suite.DefaultConfig(), options: suite.Options{Logger: warnings(t), Private: true}}
	p.cfg.Data, p.cfg.Workspaces, p.cfg.Model, p.cfg.Ollama, p.cfg.Auth = t.TempDir(), e2e.Agents(t), "offline", "none", auth()
	// Whatever a test does, nothing of it stays behind.
	t.Cleanup(func() {
		p.stop(t)
		if err := procs.EndSandboxes(p.cfg.Data); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *inProcess) start(t *testing.T) {
	t.Helper()
	var err error
	if p.running, err = suite.Start(t.Context(), p.cfg, p.options); err != nil {
		t.Fatal(err)
	}
}

func (p *inProcess) stop(t *testing.T) {
	t.Helper()
	if p.running == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.running.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	p.running = nil
}

// processes are the services as processes.
func processes(t *testing.T) *procs.Cluster {
	t.Helper()
	args := map[string][]string{procs.Orchestrator: {"--ollama-url=none"}}
	for _, name := range procs.Names {
		args[name] = append(args[name], authArgs()...)
	}
	dir := t.TempDir()
	// The task service acts for no user when it delivers a result.
	args[procs.Task] = append(args[procs.Task], "--threads-token="+sign(t, access.ClientClaims{Service: true, Verbs: []string{"thread.write"}, Agents: []string{"*"}, Scopes: []string{"*"}}))
	c, err := procs.Start(t.Context(), procs.Config{Dir: dir, Workspaces: e2e.Agents(t), Model: "offline", Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		destroyAll(t, ctx, c)
		if err := c.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := procs.EndSandboxes(dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, name := range procs.Names {
				t.Logf("end of the log of %s:\n%s", name, c.LogTail(name))
			}
		}
	})
	return c
}

// destroyAll ends the sandboxes, which would outlive the processes.
func destroyAll(t *testing.T, ctx context.Context, c *procs.Cluster) {
	boxes := sandboxv1.NewSandboxServiceClient(c.Conn(procs.Sandbox))
	for _, tenant := range []string{identity.DefaultTenant, "globex"} {
		ctx := access.NewTokenContext(ctx, sign(t, access.ClientClaims{Tenant: tenant, User: "*", Agents: []string{"*"}, Verbs: []string{"*"}, Scopes: []string{"*"}}))
		all, err := boxes.List(identity.NewContext(ctx, identity.Identity{Agent: "helper", User: "admin"}), &sandboxv1.ListRequest{AllBuckets: true})
		if err != nil {
			t.Errorf("sandboxes of %s: %v", tenant, err)
		}
		for _, box := range all.GetSandboxes() {
			bucket, err := identity.ParseBucket(box.GetBucket())
			if err != nil {
				t.Error(err)
				continue
			}
			owner := identity.Identity{Agent: bucket.Agent, User: bucket.User, Session: bucket.Session, Scope: bucket.Scope}
			if _, err := boxes.Destroy(identity.NewContext(ctx, owner), &sandboxv1.DestroyRequest{SandboxId: box.GetSandboxId(), Force: true}); err != nil {
				t.Errorf("destroy %s of %s: %v", box.GetSandboxId(), box.GetBucket(), err)
			}
		}
	}
}
