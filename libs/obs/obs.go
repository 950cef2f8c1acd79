package obs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// Obs is the set-up of one program. Make one with [Setup].
type Obs struct {
	// Logger writes the log.
	Logger *slog.Logger
	// Tracers makes tracers. Without an OTLP endpoint their spans go nowhere; ids of callers are passed on all the
	// same.
	Tracers trace.TracerProvider
	// Meters makes meters.
	Meters metric.MeterProvider

	registry   *prometheus.Registry
	propagator propagation.TextMapPropagator
	shutdown   []func(context.Context) error
}

// Setup makes logs, traces and metrics for the service of that name. The log goes to w. Nothing is sent before there is
// something to send, so an endpoint that does not answer is no error here.
func Setup(ctx context.Context, cfg Config, service string, w io.Writer) (*Obs, error) {
	logger, err := NewLogger(w, cfg)
	if err != nil {
		return nil, err
	}
	o := &Obs{
		Logger:     logger.With("service", service),
		Tracers:    noop.NewTracerProvider(),
		registry:   prometheus.NewRegistry(),
		propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	version := buildVersion()
	described := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	if err := o.setupMetrics(described, service, version); err != nil {
		return nil, err
	}
	if err := o.setupTraces(ctx, cfg, described); err != nil {
		return nil, errors.Join(err, o.Shutdown(ctx))
	}
	return o, nil
}

func (o *Obs) setupMetrics(described *resource.Resource, service, version string) error {
	o.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(o.registry))
	if err != nil {
		return fmt.Errorf("obs: metrics: %w", err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(described))
	o.Meters = meters
	o.shutdown = append(o.shutdown, meters.Shutdown)
	labels := metric.WithAttributes(attribute.String("service", service), attribute.String("version", version))
	_, err = meters.Meter(ScopeName).Int64ObservableGauge(MetricInfo, metric.WithDescription("The program that runs; always 1."),
		metric.WithInt64Callback(func(_ context.Context, observer metric.Int64Observer) error {
			observer.Observe(1, labels)
			return nil
		}))
	if err != nil {
		return fmt.Errorf("obs: metrics: %w", err)
	}
	return nil
}

func (o *Obs) setupTraces(ctx context.Context, cfg Config, described *resource.Resource) error {
	if cfg.OTLPEndpoint == "" {
		return nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(cfg.OTLPEndpoint))
	if err != nil {
		return fmt.Errorf("obs: traces to %s: %w", cfg.OTLPEndpoint, err)
	}
	tracers := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(described),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.TraceRatio))),
	)
	o.Tracers = tracers
	o.shutdown = append(o.shutdown, tracers.Shutdown)
	return nil
}

// Handler serves the metrics to Prometheus.
func (o *Obs) Handler() http.Handler {
	return promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// ServerStats returns the stats handlers of servers: a span and metrics for each call but health checks.
func (o *Obs) ServerStats() []stats.Handler {
	return []stats.Handler{otelgrpc.NewServerHandler(o.grpcOptions()...)}
}

// DialOptions returns the options of connections: a span and metrics for each call, and the trace goes on at the other
// side.
func (o *Obs) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(o.grpcOptions()...))}
}

func (o *Obs) grpcOptions() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(o.Tracers), otelgrpc.WithMeterProvider(o.Meters), otelgrpc.WithPropagators(o.propagator),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	}
}

// Shutdown sends what is left and ends. It may be called twice.
func (o *Obs) Shutdown(ctx context.Context) error {
	var errs []error
	for i := len(o.shutdown) - 1; i >= 0; i-- {
		errs = append(errs, o.shutdown[i](ctx))
	}
	o.shutdown = nil
	return errors.Join(errs...)
}

// buildVersion is the version of the program as Go's build recorded it.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
