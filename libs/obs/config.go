// Package obs sets up what operators look at: logs (slog), traces (OpenTelemetry, sent by OTLP when an endpoint is set)
// and metrics (OpenTelemetry, read by Prometheus).
//
// Nothing is global: a program sets up one [Obs] and hands its parts on. Names of metrics are in names.go.
package obs

import (
	"fmt"
	"log/slog"
)

// Config holds the settings of logs, traces and metrics.
type Config struct {
	LogLevel     string  `name:"log-level" help:"Least level to log. Calls that went well are logged at debug." enum:"debug,info,warn,error" default:"info"`
	LogFormat    string  `name:"log-format" help:"Form of the log: text or json." enum:"text,json" default:"text"`
	OTLPEndpoint string  `name:"otlp-endpoint" help:"Where to send traces, for example http://127.0.0.1:4317 (OTLP over gRPC). Empty: nowhere."`
	TraceRatio   float64 `name:"trace-ratio" help:"Part of the traces that start here which is sent, 0 to 1. Traces that callers started follow their decision." default:"1"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	if _, err := c.level(); err != nil {
		return err
	}
	if c.LogFormat != "" && c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("obs: log-format %q is not one of text, json", c.LogFormat)
	}
	if c.TraceRatio < 0 || c.TraceRatio > 1 {
		return fmt.Errorf("obs: trace-ratio %v is not between 0 and 1", c.TraceRatio)
	}
	return nil
}

// level parses the level; empty is info.
func (c Config) level() (slog.Level, error) {
	var level slog.Level
	if c.LogLevel == "" {
		return slog.LevelInfo, nil
	}
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("obs: log-level %q is not one of debug, info, warn, error", c.LogLevel)
	}
	return level, nil
}
