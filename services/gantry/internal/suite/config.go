package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/server"
)

// Config holds the settings of the suite in one process. Each service has many more when it runs by itself; here they have their defaults.
type Config struct {
	Data        string   `help:"Directory in which everything is kept." default:".gantry" type:"path" env:"GANTRY_DATA"`
	Workspace   string   `help:"Workspace directory of the default agent. Empty: DATA/workspace." env:"GANTRY_WORKSPACE" type:"path"`
	Workspaces  string   `help:"Directory whose subdirectories are the workspaces of the agents of their names." env:"GANTRY_WORKSPACES" type:"path"`
	Address     string   `help:"Address to serve gRPC on: all services." default:"127.0.0.1:7401" env:"GANTRY_ADDRESS"`
	HTTPAddress string   `name:"http-address" help:"Address to serve REST on. Empty: none." default:"127.0.0.1:7400" env:"GANTRY_HTTP_ADDRESS"`
	Model       string   `help:"Default model, for example ollama:qwen3. Empty: Ollama's only model that can call tools, else offline." env:"GANTRY_MODEL"`
	Ollama      string   `name:"ollama-url" help:"Address of Ollama. Empty: OLLAMA_HOST, else its usual address. none: Ollama is not used."`
	Script      string   `name:"model-script" help:"YAML file of scripted answers, as provider scripted. For tests." type:"path"`
	Backend     string   `help:"Where files are kept: local (plain files) or sqlite." enum:"local,sqlite" default:"local"`
	ImportDirs  []string `name:"import-dirs" help:"Directories below which AgentScope workspaces may be imported (gantry fs import --agentscope). None: imports are refused." env:"GANTRY_IMPORT_DIRS" type:"path"`
	// What the orchestrator's settings of the same names say.
	MCPCommands  []string      `name:"mcp-commands" help:"Commands that agents may start on this host as MCP servers, each with the arguments that it must begin with. Empty: none."`
	MCPPrivate   bool          `name:"mcp-private" help:"Allow MCP servers at addresses that are not public, this host's included."`
	MCPVariables []string      `name:"mcp-variables" help:"Environment variables whose values declarations of MCP servers may use. Empty: none."`
	Auth         access.Config `embed:"" prefix:"auth-"`
}

// DefaultConfig gives the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{Data: ".gantry", Address: "127.0.0.1:7401", HTTPAddress: "127.0.0.1:7400", Backend: "local"}
}

// prepare checks the settings and makes the data directory.
func (c *Config) prepare() error {
	if c.Data == "" {
		return errors.New("the data directory is empty: name one with --data")
	}
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	c.Data = data
	if c.Workspace == "" {
		c.Workspace = filepath.Join(data, "workspace")
	}
	if c.Workspaces != "" {
		if info, err := os.Stat(c.Workspaces); err != nil || !info.IsDir() {
			return fmt.Errorf("--workspaces %s is no directory", c.Workspaces)
		}
	}
	if err := os.MkdirAll(c.Workspace, 0o755); err != nil {
		return dataError(data, err)
	}
	probe, err := os.CreateTemp(data, ".writable-*")
	if err != nil {
		return dataError(data, err)
	}
	if _, err := probe.Write(make([]byte, 4096)); err != nil {
		return errors.Join(dataError(data, err), probe.Close(), os.Remove(probe.Name()))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// free says, before anything is made, when a public address is in use, or may not be served without authentication. Port 0 always is free.
func (c *Config) free(ctx context.Context) error {
	for setting, address := range map[string]string{"address": c.Address, "http-address": c.HTTPAddress} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			continue // off, or not of TCP; what is wrong with it is said by who serves it
		}
		if open, err := server.Open(address); err == nil && open && c.Auth.Mode != access.ModeJWT {
			return fmt.Errorf("%w, so --%s %s must be loopback; --auth-mode jwt serves others", server.ErrOpenAddress, setting, address)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%s is in use by another program: stop that one, or choose another address with --%s", address, setting)
		}
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return fmt.Errorf("--%s %s: %w", setting, address, err)
		}
	}
	return nil
}

// dataError says what is wrong with the data directory and what to do.
func dataError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the data directory %s can't be written: choose another with --data", dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk of the data directory %s is full: make room, or choose another with --data", dir)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("the data directory %s is, or is below, a file: choose another with --data", dir)
	}
	return fmt.Errorf("the data directory %s: %w", dir, err)
}
