package sandbox_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/services/sandbox"
)

func TestDefaultsAreTheTags(t *testing.T) {
	var cfg sandbox.Config
	if err := config.Load(&cfg, nil, config.Options{Name: "sandbox"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sandbox.DefaultConfig(), cfg); diff != "" {
		t.Errorf("DefaultConfig and the tags differ:\n%s", diff)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestReadmeHasTheSettings(t *testing.T) {
	p, err := config.New(&sandbox.Config{}, config.Options{Name: "sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(nil); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := p.Markdown(&table); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), strings.TrimSpace(table.String())) {
		t.Errorf("README.md lacks this table:\n%s", table.String())
	}
}

func TestWrongSettings(t *testing.T) {
	for want, change := range map[string]func(*sandbox.Config){
		"dir":             func(c *sandbox.Config) { c.Dir = "" },
		"driver":          func(c *sandbox.Config) { c.Driver = "docker" },
		"process-enabled": func(c *sandbox.Config) { c.Driver = "process" },
		"max-sandboxes":   func(c *sandbox.Config) { c.MaxSandboxes = 0 },
		"too small":       func(c *sandbox.Config) { c.MemoryBytes = 1 },
		"negative":        func(c *sandbox.Config) { c.SaveAfter = -1 },
		"rootfs":          func(c *sandbox.Config) { c.RootFS = "relative" },
	} {
		cfg := sandbox.DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
