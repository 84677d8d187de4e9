package envoyrls

import (
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/telemetry"
)

// A request is traced if its client has sampled it, by the traceparent of its metadata.
func TestTrace(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	b := newBench(t, specYAML, func(c *Config) { c.Tracer = telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out))) })
	client := rlspb.NewRateLimitServiceClient(dial(t, b.serve()))
	const id = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, parents := range [][]string{nil, {id + "0"}, {id + "1", id + "1"}, {id + "1"}} {
		ctx := metadata.NewOutgoingContext(patient(t), metadata.MD{"traceparent": parents})
		if _, err := client.ShouldRateLimit(ctx, request(of("user", "a"))); err != nil {
			t.Fatal(err)
		}
	}
	spans := out.GetSpans()
	if len(spans) != 1 || spans[0].Parent.SpanID().String() != id[36:52] || spans[0].Name != "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" {
		t.Fatalf("%+v", spans)
	}
	tags := map[string]string{}
	for _, a := range spans[0].Attributes {
		tags[string(a.Key)] = a.Value.String()
	}
	if tags["weir.outcome"] != "ok" && tags["weir.outcome"] != "over_limit" || tags["weir.domain"] == "" {
		t.Errorf("%v", tags)
	}
}
