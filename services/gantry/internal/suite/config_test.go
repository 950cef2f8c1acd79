package suite_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

func TestAStartThatIsRefusedMakesNothing(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*suite.Config)
		want   string
	}{
		"a busy address":           {func(c *suite.Config) { c.Address = busy.Addr().String() }, "is in use by another program"},
		"a busy REST address":      {func(c *suite.Config) { c.HTTPAddress = busy.Addr().String() }, "--http-address"},
		"open to the network":      {func(c *suite.Config) { c.Address = "0.0.0.0:0" }, "must be loopback"},
		"REST open to the network": {func(c *suite.Config) { c.HTTPAddress = ":0" }, "must be loopback"},
		"no directory of agents":   {func(c *suite.Config) { c.Workspaces = file }, "is no directory"},
		"a file as data directory": {func(c *suite.Config) { c.Data = file }, "choose another with --data"},
		"a directory below a file": {func(c *suite.Config) { c.Data = filepath.Join(file, "x") }, "choose another with --data"},
		"no data directory at all": {func(c *suite.Config) { c.Data = "" }, "name one with --data"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := suite.DefaultConfig()
			cfg.Data, cfg.Address, cfg.HTTPAddress, cfg.Ollama = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0", "none"
			made := cfg.Data
			tt.change(&cfg)
			_, err := suite.Start(t.Context(), cfg, suite.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("err = %v, want %q in one line", err, tt.want)
			}
			if strings.Contains(tt.want, "loopback") && !errors.Is(err, server.ErrOpenAddress) {
				t.Errorf("err = %v is not ErrOpenAddress", err)
			}
			if _, err := os.Stat(made); !os.IsNotExist(err) {
				t.Error("a data directory was made all the same")
			}
		})
	}
}
