package obs

// Metric names of Gantry. Every name that a service adds stands here, so that dashboards have one list; units are in
// the instrument, as OpenTelemetry has it. Metrics of calls (rpc.server.*, rpc.client.*) and of the Go runtime have the
// names of their conventions.
const (
	// MetricInfo is 1, with the labels service and version.
	MetricInfo = "gantry.info"
)

// ScopeName is the instrumentation scope of Gantry's own tracers and meters.
const ScopeName = "github.com/gantry-agents/gantry"
