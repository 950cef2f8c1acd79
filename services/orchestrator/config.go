package orchestrator

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/model"
)

// Config holds the settings of the orchestrator.
type Config struct {
	Replica   string `name:"replica" help:"Id of this replica, stable over restarts. Empty: the host's name."`
	Advertise string `name:"advertise" help:"Address at which other replicas and clients reach this one."`

	Workspace string `name:"workspace-address" help:"Address of the workspace service." default:"127.0.0.1:7402"`
	Threads   string `name:"threads-address" help:"Address of the ThreadService. Empty: that of the workspace service."`
	Memory    string `name:"memory-address" help:"Address of the memory service. none: agents have no memory tools." default:"127.0.0.1:7403"`
	Sandbox   string `name:"sandbox-address" help:"Address of the sandbox service. none: agents have no shell." default:"127.0.0.1:7404"`
	Tasks     string `name:"tasks-address" help:"Address of the task service. none: agents have no subagents and no background work." default:"127.0.0.1:7405"`

	CapabilityKey    string `name:"capability-key" help:"File with the private key of capabilities; made when it is not there. Empty: calls to other services carry no capability."`
	CapabilityKeySet string `name:"capability-key-set" help:"File to write the public key to, for the other services' auth-capability-keys. Empty: not written."`

	Model         string        `name:"model" help:"Default model, as provider:model. Empty: Ollama's only tool-capable model, else offline."`
	OllamaURL     string        `name:"ollama-url" help:"Address of an Ollama server. Empty: OLLAMA_HOST, else http://127.0.0.1:11434. none: Ollama is not used."`
	OpenAIURL     string        `name:"openai-url" help:"Base URL of an OpenAI-compatible server. Empty: that provider is not used."`
	OpenAIKey     config.Secret `name:"openai-key" help:"Key for that server."`
	Script        string        `name:"model-script" help:"YAML file of scripted answers, as provider scripted. For tests."`
	ModelAttempts int           `name:"model-attempts" help:"Attempts to get the first sign of an answer." default:"3"`
	ModelFirst    time.Duration `name:"model-first-timeout" help:"Longest wait for the first sign of an answer." default:"3m"`
	ModelIdle     time.Duration `name:"model-idle-timeout" help:"Longest silence within an answer." default:"1m"`
	ModelTotal    time.Duration `name:"model-total-timeout" help:"Longest answer." default:"15m"`

	MaxThreads        int           `name:"max-threads" help:"Threads that this replica works on at once. Calls over it are refused with a time to come again." default:"1000"`
	MaxThreadsPerUser int           `name:"max-threads-per-user" help:"Of those, threads of one user with one agent." default:"100"`
	MaxQueue          int           `name:"max-queue" help:"Inputs that may wait on one thread." default:"32"`
	MaxTasks          int           `name:"max-tasks" help:"Child runs that this replica works on at once." default:"64"`
	Tenants           []string      `name:"tenants" help:"Tenants whose tasks this replica looks for from its start; others follow when it meets them." default:"default"`
	ParallelTools     int           `name:"parallel-tools" help:"Calls of one step that run at once." default:"16"`
	CheckpointEvery   int           `name:"checkpoint-every" help:"Events of a thread after which a checkpoint is written, from which the thread is opened. 0: none is." default:"200"`
	InteractionLife   time.Duration `name:"interaction-life" help:"How long a question or an approval waits for an answer. 0: for ever." default:"168h"`
	LocalShell        bool          `name:"local-shell" help:"Allow agents the mode local + shell: commands of the model on this host, without isolation."`

	MCPCommands     []string      `name:"mcp-commands" help:"Commands that agents may start on this host as MCP servers, each with the arguments that it must begin with. Empty: none."`
	MCPPrivate      bool          `name:"mcp-private" help:"Allow MCP servers at addresses that are not public, this host's included."`
	MCPVariables    []string      `name:"mcp-variables" help:"Environment variables whose values declarations of MCP servers may use, by the name in braces behind a dollar sign. Empty: none."`
	MCPConnections  int           `name:"mcp-connections" help:"Connections to MCP servers that are open at once." default:"64"`
	MCPIdle         time.Duration `name:"mcp-idle" help:"How long an unused connection to an MCP server stays open." default:"5m"`
	MCPStartTimeout time.Duration `name:"mcp-start-timeout" help:"Longest wait for an MCP server to connect and to list its tools, where its declaration says nothing. A run starts after it without that server." default:"10s"`
	MCPCallTimeout  time.Duration `name:"mcp-call-timeout" help:"Longest call of a tool of an MCP server, where its declaration says nothing." default:"1m"`

	DrainTimeout time.Duration `name:"drain-timeout" help:"How long runs may take to reach a step border when the replica stops. Then they are left to other replicas where they are." default:"8s"`
}

// None switches a service off in the settings.
const None = "none"

// DefaultConfig returns the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{
		Workspace: "127.0.0.1:7402", Memory: "127.0.0.1:7403", Sandbox: "127.0.0.1:7404", Tasks: "127.0.0.1:7405",
		ModelAttempts: 3, ModelFirst: 3 * time.Minute, ModelIdle: time.Minute, ModelTotal: 15 * time.Minute,
		MaxThreads: 1000, MaxThreadsPerUser: 100, MaxQueue: 32, MaxTasks: 64, Tenants: []string{"default"}, ParallelTools: 16, CheckpointEvery: 200, InteractionLife: 168 * time.Hour, DrainTimeout: 8 * time.Second,
		MCPConnections: 64, MCPIdle: 5 * time.Minute, MCPStartTimeout: 10 * time.Second, MCPCallTimeout: time.Minute,
	}
}

// Validate checks the settings.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int
	}{
		{"model-attempts", c.ModelAttempts}, {"max-threads", c.MaxThreads}, {"max-threads-per-user", c.MaxThreadsPerUser}, {"max-tasks", c.MaxTasks}, {"parallel-tools", c.ParallelTools},
		{"mcp-connections", c.MCPConnections},
	} {
		if f.value < 1 {
			errs = append(errs, fmt.Errorf("orchestrator: %s is %d, at least 1 is needed", f.name, f.value))
		}
	}
	// The store tells a replica of at most 64 messages at once; a longer queue would hide what stops a run.
	if c.MaxQueue < 1 || c.MaxQueue > 48 {
		errs = append(errs, fmt.Errorf("orchestrator: max-queue is %d, 1 to 48 are possible", c.MaxQueue))
	}
	if c.CheckpointEvery < 0 {
		errs = append(errs, fmt.Errorf("orchestrator: checkpoint-every is %d, 0 or more is needed", c.CheckpointEvery))
	}
	if c.ModelFirst < 0 || c.ModelIdle < 0 || c.ModelTotal < 0 || c.InteractionLife < 0 || c.DrainTimeout < 0 || c.MCPIdle < 0 || c.MCPStartTimeout < 0 || c.MCPCallTimeout < 0 {
		errs = append(errs, errors.New("orchestrator: a time is negative"))
	}
	return errors.Join(errs...)
}

// replica is the id of this replica.
func (c Config) replica() string {
	if c.Replica != "" {
		return c.Replica
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "orchestrator"
}

func (c Config) retry() model.RetryPolicy {
	p := model.DefaultRetryPolicy()
	p.Attempts = c.ModelAttempts
	return p
}

func (c Config) timeouts() model.Timeouts {
	return model.Timeouts{FirstEvent: c.ModelFirst, Idle: c.ModelIdle, Total: c.ModelTotal}
}
