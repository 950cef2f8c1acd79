package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/services/memory"
)

// TestDefaults checks that the tags and DefaultConfig state the same defaults.
func TestDefaults(t *testing.T) {
	var cfg memory.Config
	if err := config.Load(&cfg, nil, config.Options{Name: "memory", LookupEnv: func(string) (string, bool) { return "", false }}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(memory.DefaultConfig(), cfg); diff != "" {
		t.Errorf("-DefaultConfig +tags\n%s", diff)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigRefuses(t *testing.T) {
	for want, change := range map[string]func(*memory.Config){
		"index is":             func(c *memory.Config) { c.Index = "paper" },
		"index-dir":            func(c *memory.Config) { c.IndexDir = "" },
		"index-memory-bytes":   func(c *memory.Config) { c.IndexMemoryBytes = 1 },
		"time-zone":            func(c *memory.Config) { c.TimeZone = "Mars/Olympus" },
		"memory-tokens":        func(c *memory.Config) { c.BudgetTokens = 10 },
		"memory-versions":      func(c *memory.Config) { c.Versions = 0 },
		"memory-model-timeout": func(c *memory.Config) { c.ModelTimeout = -time.Second },
	} {
		cfg := memory.DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := memory.New(t.Context(), cfg, memory.Deps{}); err == nil {
			t.Errorf("%s: a service was made", want)
		}
	}
	if _, err := memory.New(t.Context(), memory.DefaultConfig(), memory.Deps{}); err == nil {
		t.Error("a service was made without files")
	}
}
