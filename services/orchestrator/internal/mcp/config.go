package mcp

import (
	"log/slog"
	"os"
	"time"
)

// Config is what the operator allows.
type Config struct {
	// Commands may be started as servers, each with the arguments that it must begin with: "npx -y @modelcontextprotocol/server-memory". Empty: none.
	Commands []string
	// Private allows servers at addresses that are not public.
	Private bool
	// Variables are the names of environment variables that declarations may use.
	Variables []string
	// MaxConnections bounds the connections that are open at once. 0: 64.
	MaxConnections int
	// Idle is how long an unused connection stays open. 0: 5 minutes.
	Idle time.Duration
	// Start bounds connecting and listing, Call one call, where the declaration says nothing. 0: 10 seconds, 1 minute.
	Start, Call time.Duration
	// Log gets what is not for the run. Nil: none.
	Log *slog.Logger
	// Now is the time. Nil: the system's.
	Now func() time.Time
	// Getenv looks variables up. Nil: the environment of the process.
	Getenv func(string) (string, bool)
}

func (c Config) complete() Config {
	if c.MaxConnections <= 0 {
		c.MaxConnections = 64
	}
	c.Idle, c.Start, c.Call = or(c.Idle, 5*time.Minute), or(c.Start, 10*time.Second), or(c.Call, time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Getenv == nil {
		c.Getenv = os.LookupEnv
	}
	return c
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Caller is on whose behalf servers are used.
type Caller struct {
	Tenant, Agent, User, Session string
	// Attributes are those of the call. They are not kept over a take-over.
	Attributes map[string]string
}

// Problem is why a run lacks a server, or some of its tools.
type Problem struct {
	Server string
	// Reason is MCP_SERVER_UNAVAILABLE, MCP_TOOLS_LEFT_OUT or MCP_VARIABLE_MISSING.
	Reason string
	Text   string
}

// The reasons of problems.
const (
	ReasonUnavailable = "MCP_SERVER_UNAVAILABLE"
	ReasonLeftOut     = "MCP_TOOLS_LEFT_OUT"
	ReasonVariable    = "MCP_VARIABLE_MISSING"
)
