package gateway

import (
	"fmt"
	"net"
	"time"
)

// Config holds the settings of the gateway.
type Config struct {
	HTTPAddress     string        `name:"http-address" help:"Address to serve HTTP on." default:"127.0.0.1:7400"`
	Orchestrator    string        `name:"orchestrator-address" help:"Address of the orchestrator." default:"127.0.0.1:7401"`
	Workspace       string        `name:"workspace-address" help:"Address of the workspace service." default:"127.0.0.1:7402"`
	Threads         string        `name:"threads-address" help:"Address of the thread service. Empty: the workspace service."`
	Memory          string        `name:"memory-address" help:"Address of the memory service." default:"127.0.0.1:7403"`
	Sandbox         string        `name:"sandbox-address" help:"Address of the sandbox service." default:"127.0.0.1:7404"`
	Tasks           string        `name:"tasks-address" help:"Address of the task service." default:"127.0.0.1:7405"`
	AllowedHosts    []string      `name:"allowed-hosts" help:"Host names under which the gateway answers, besides loopback names and its own address."`
	AllowedOrigins  []string      `name:"allowed-origins" help:"Origins of web pages that may call the gateway, for example https://app.example.org."`
	MaxRequestBytes int64         `name:"max-request-bytes" help:"Largest request body, uploads and other client streams excepted." default:"16777216"`
	IdleTimeout     time.Duration `name:"http-idle-timeout" help:"How long an idle connection is kept." default:"2m"`
	ShutdownTimeout time.Duration `name:"http-shutdown-timeout" help:"How long requests under way may take to end when the gateway stops." default:"10s"`
}

// DefaultConfig returns the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{
		HTTPAddress: "127.0.0.1:7400", Orchestrator: "127.0.0.1:7401", Workspace: "127.0.0.1:7402", Memory: "127.0.0.1:7403",
		Sandbox: "127.0.0.1:7404", Tasks: "127.0.0.1:7405", MaxRequestBytes: 16 << 20, IdleTimeout: 2 * time.Minute, ShutdownTimeout: 10 * time.Second,
	}
}

// Validate checks the settings.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.HTTPAddress); err != nil {
		return fmt.Errorf("gateway: http-address %q is not host:port", c.HTTPAddress)
	}
	if c.MaxRequestBytes < 1024 {
		return fmt.Errorf("gateway: max-request-bytes is %d, at least 1024 are needed", c.MaxRequestBytes)
	}
	if c.IdleTimeout < 0 || c.ShutdownTimeout < 0 {
		return fmt.Errorf("gateway: a time is negative")
	}
	return nil
}
