package workspace_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace"
)

// TestDefaults checks that the tags and DefaultConfig state the same defaults.
func TestDefaults(t *testing.T) {
	var cfg workspace.Config
	if err := config.Load(&cfg, nil, config.Options{Name: "workspace", LookupEnv: func(string) (string, bool) { return "", false }}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workspace.DefaultConfig(), cfg); diff != "" {
		t.Errorf("-DefaultConfig +tags\n%s", diff)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	var cfg workspace.Config
	environment := map[string]string{"GANTRY_WORKSPACE": "/srv/ws", "GANTRY_BACKEND": "sqlite"}
	err := config.Load(&cfg, []string{"--backend=local", "--agents=coder=/srv/coder,analyst=/srv/analyst"}, config.Options{
		Name: "workspace", LookupEnv: func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Workspace != "/srv/ws" || cfg.Backend != "local" || cfg.Agents["coder"] != "/srv/coder" || cfg.Agents["analyst"] != "/srv/analyst" {
		t.Errorf("got %+v", cfg)
	}
}

func TestConfigRefuses(t *testing.T) {
	for want, change := range map[string]func(*workspace.Config){
		"data names no directory":           func(c *workspace.Config) { c.Data = "" },
		"not one of local, object":          func(c *workspace.Config) { c.Backend = "paper" },
		"needs redis-url":                   func(c *workspace.Config) { c.Backend = workspace.BackendRedis },
		"needs object-url":                  func(c *workspace.Config) { c.Backend = workspace.BackendObject },
		"cache-bytes is 5; it must":         func(c *workspace.Config) { c.CacheBytes = 5 },
		"postgres-dsn is needed where":      func(c *workspace.Config) { c.Backend = workspace.BackendPostgres },
		"workspace: postgres-dsn is needed": func(c *workspace.Config) { c.Journal = workspace.BackendPostgres },
		`journal-backend is "redis"`:        func(c *workspace.Config) { c.Journal = workspace.BackendRedis },
		"quota is negative":                 func(c *workspace.Config) { c.MaxFiles = -1 },
		"names the root":                    func(c *workspace.Config) { c.Routes = map[string]string{"/": "sqlite"} },
		"leaves the root":                   func(c *workspace.Config) { c.Routes = map[string]string{"../x": "sqlite"} },
		"names a reserved place":            func(c *workspace.Config) { c.Routes = map[string]string{".Gantry-Runtime/x": "sqlite"} },
		"name the same place":               func(c *workspace.Config) { c.Routes = map[string]string{"a/b": "sqlite", "/a//b/": "sqlite"} },
		`goes to "paper", not one of`:       func(c *workspace.Config) { c.Routes = map[string]string{"a": "paper"} },
		"postgres-dsn is needed":            func(c *workspace.Config) { c.Routes = map[string]string{"a": "postgres"} },
		"other replicas don't see": func(c *workspace.Config) {
			c.Backend, c.Postgres, c.Routes = "postgres", "x", map[string]string{"a": "sqlite"}
		},
		`agent "coder" has no direct`: func(c *workspace.Config) { c.Agents = map[string]string{"coder": ""} },
	} {
		cfg := workspace.DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A data directory that can't be used is said in one line, and nothing is left open.
func TestDataRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite} {
		cfg := settings(t, backend)
		cfg.Data = filepath.Join(file, "data")
		if _, err := workspace.New(t.Context(), cfg, workspace.Deps{}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s in a file: %v", backend, err)
		}
	}
	cfg := settings(t, workspace.BackendLocal)
	first, err := workspace.New(t.Context(), cfg, workspace.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = workspace.New(t.Context(), cfg, workspace.Deps{})
	if !errors.Is(err, errdefs.ErrFailedPrecondition) || !strings.Contains(err.Error(), "another process owns the store") {
		t.Errorf("a second owner of the data: %v", err)
	}
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Who keeps files on a store that takes files only is told where the rest is.
func TestFilesOnly(t *testing.T) {
	for backend, says := range map[string]bool{workspace.BackendSQLite: false, workspace.BackendObject: true} {
		var log strings.Builder
		service, err := workspace.New(t.Context(), settings(t, backend), workspace.Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := service.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), "the journal stays in a database") != says {
			t.Errorf("%s logs %q", backend, log.String())
		}
	}
}
