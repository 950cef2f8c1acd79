package memory

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/config"
)

// Config holds the settings of the memory service.
type Config struct {
	Filesystem       string        `name:"filesystem" help:"Address of the FilesystemService that holds the buckets." default:"127.0.0.1:7402"`
	Threads          string        `name:"threads" help:"Address of the ThreadService. Empty: that of the filesystem."`
	Index            string        `name:"index" help:"Where indexes are kept: disk or memory." enum:"disk,memory" default:"disk"`
	IndexDir         string        `name:"index-dir" help:"Directory of the indexes. It holds nothing that can't be built again." default:"./.gantry/index"`
	IndexMemoryBytes int64         `name:"index-memory-bytes" help:"Estimated memory of open indexes, from which those used longest ago are closed." default:"536870912"`
	SyncTime         time.Duration `name:"sync-time" help:"What a search spends at most on reading changed files first." default:"2s"`
	TimeZone         string        `name:"time-zone" help:"IANA name of the zone whose day picks a ledger, where the caller names none." default:"UTC"`
	BudgetTokens     int           `name:"memory-tokens" help:"Budget of MEMORY.md in estimated tokens." default:"4000"`
	Versions         int           `name:"memory-versions" help:"Earlier versions of MEMORY.md that are kept." default:"20"`
	Model            string        `name:"memory-model" help:"Model that extracts and consolidates, as provider:model. Empty: rules do."`
	OllamaURL        string        `name:"memory-ollama-url" help:"Address of an Ollama server for that model. Empty: OLLAMA_HOST, else http://127.0.0.1:11434."`
	OpenAIURL        string        `name:"memory-openai-url" help:"Base URL of an OpenAI-compatible server for that model. Empty: that provider is not used."`
	OpenAIKey        config.Secret `name:"memory-openai-key" help:"Key for that server."`
	Script           string        `name:"memory-model-script" help:"YAML file of scripted answers, as provider scripted. For tests."`
	ModelTimeout     time.Duration `name:"memory-model-timeout" help:"Longest wait for one answer of that model." default:"2m"`
}

// DefaultConfig gives the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{
		Filesystem: "127.0.0.1:7402", Index: "disk", IndexDir: "./.gantry/index", IndexMemoryBytes: 512 << 20, SyncTime: 2 * time.Second,
		TimeZone: "UTC", BudgetTokens: 4000, Versions: 20, ModelTimeout: 2 * time.Minute,
	}
}

const (
	minIndexMemory = 1 << 20
	minBudget      = 200
)

// Validate checks the settings.
func (c Config) Validate() error {
	var errs []error
	if _, ok := indexBackends[c.Index]; !ok {
		errs = append(errs, fmt.Errorf("memory: index is %q, not one of disk, memory", c.Index))
	}
	if c.Index == "disk" && c.IndexDir == "" {
		errs = append(errs, errors.New("memory: index-dir is empty"))
	}
	if c.IndexMemoryBytes < minIndexMemory {
		errs = append(errs, fmt.Errorf("memory: index-memory-bytes is %d, at least %d are needed", c.IndexMemoryBytes, minIndexMemory))
	}
	if _, err := time.LoadLocation(c.TimeZone); err != nil {
		errs = append(errs, fmt.Errorf("memory: time-zone: there is no zone %q", c.TimeZone))
	}
	if c.BudgetTokens < minBudget {
		errs = append(errs, fmt.Errorf("memory: memory-tokens is %d, at least %d are needed", c.BudgetTokens, minBudget))
	}
	if c.Versions < 1 {
		errs = append(errs, fmt.Errorf("memory: memory-versions is %d, at least 1 is needed", c.Versions))
	}
	if c.SyncTime <= 0 || c.ModelTimeout <= 0 {
		errs = append(errs, errors.New("memory: sync-time and memory-model-timeout must be positive"))
	}
	return errors.Join(errs...)
}
