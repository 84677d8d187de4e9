package telemetry

import (
	"context"
	"log/slog"
	"os"
	"time"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/version"
)

// OTLP sends spans, and the metrics of a registry, to a collector, by OTLP over gRPC. The
// standard variables OTEL_* of the OpenTelemetry SDK have its other settings, such as
// OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and OTEL_METRIC_EXPORT_INTERVAL. A collector that
// does not answer costs nothing but what was to be sent: spans are dropped, and one line a
// minute is logged. The zero value sends nothing.
type OTLP struct {
	// Tracer makes the spans; nil: none are sent.
	Tracer *Tracer
	ends   []func(context.Context) error
}

// endpointVariable has the collector for programs that use OpenTelemetry's SDK.
const endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

// NewOTLP begins to send for a program, to the collector at a URL such as
// http://127.0.0.1:4317; https is for TLS. Empty: nothing is sent. OTEL_TRACES_EXPORTER or
// OTEL_METRICS_EXPORTER leave one of the two out if they are "none".
func NewOTLP(endpoint, program string, r *Registry, log *slog.Logger) (*OTLP, error) {
	o := new(OTLP)
	if endpoint == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return o, nil
	}
	otel.SetErrorHandler(&failures{log: log})
	about, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", program), attribute.String("service.version", version.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	var spans []otlptracegrpc.Option
	var metrics []otlpmetricgrpc.Option
	if endpoint != os.Getenv(endpointVariable) { // else the exporters read it, and those beside it
		spans = append(spans, otlptracegrpc.WithEndpointURL(endpoint))
		metrics = append(metrics, otlpmetricgrpc.WithEndpointURL(endpoint))
	}
	if os.Getenv("OTEL_TRACES_EXPORTER") != "none" {
		exporter, err := otlptracegrpc.New(context.Background(), spans...)
		if err != nil {
			return nil, err
		}
		provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
		o.Tracer, o.ends = NewTracer(provider), append(o.ends, provider.Shutdown)
	}
	if os.Getenv("OTEL_METRICS_EXPORTER") != "none" {
		exporter, err := otlpmetricgrpc.New(context.Background(), metrics...)
		if err != nil {
			return nil, err
		}
		reader := metric.NewPeriodicReader(exporter, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(r.registry))))
		o.ends = append(o.ends, metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about)).Shutdown)
	}
	return o, nil
}

// endTime bounds the end: an unavailable collector must not hold up a restart.
const endTime = 3 * time.Second

// Close sends what is left, and ends.
func (o *OTLP) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	for _, end := range o.ends {
		if err := end(ctx); err != nil {
			otel.Handle(err)
		}
	}
}

// failures logs what could not be sent, at most once a minute.
type failures struct {
	log    *slog.Logger
	logged repeat.OncePerMinute
}

// Handle logs an error.
func (f *failures) Handle(err error) {
	if f.logged.Now() {
		f.log.Warn("cannot send telemetry; spans and metrics are lost until the collector answers", "error", err)
	}
}
