package telemetry_test

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/blackhole"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/otlp"
)

// header is a traceparent that is sampled.
const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Spans and metrics arrive at a collector, histograms as native ones.
func TestOTLP(t *testing.T) {
	collector := otlp.Start(t)
	r := telemetry.NewRegistry("test")
	r.Counters("weir_a_total", "A.", "rule").WithLabelValues("login").Add(2)
	h := r.Histogram("weir_b", "B.", telemetry.Doubling(1, 3))
	for i := range 100 {
		h.Observe(float64(i))
	}
	o := fatal.Get(telemetry.NewOTLP("http://"+collector.Addr, "weir-test", r, slog.New(slog.DiscardHandler)))(t)
	_, span := o.Tracer.Serve(telemetry.WithWaiting(t.Context(), telemetry.ParseTraceParents(header)), "served")
	span.End()
	o.Close()
	spans := collector.Spans(header[3:35])
	if len(spans) != 1 || spans[0].Service != "weir-test" || spans[0].Name != "served" || spans[0].Parent != header[36:52] {
		t.Errorf("spans: %v", spans)
	}
	if a := collector.Metric("weir-test", "weir_a_total"); a == nil || a.GetSum().GetDataPoints()[0].GetAsDouble() != 2 {
		t.Errorf("counter: %v", a)
	}
	if b := collector.Metric("weir-test", "weir_b"); b == nil || b.GetExponentialHistogram().GetDataPoints()[0].GetCount() != 100 {
		t.Errorf("histogram: %v", b)
	}
}

// A collector that cannot be connected to, or that takes connections and says nothing, holds up neither spans nor the end.
func TestCollectorNeverAnswers(t *testing.T) {
	silent := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = silent.Close() })
	for name, addr := range map[string]string{"no connection": blackhole.New(t).Addr, "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fatal.Get(telemetry.NewOTLP("http://"+addr, "weir-test", telemetry.NewRegistry("test"), slog.New(slog.DiscardHandler)))(t)
			ctx := telemetry.WithWaiting(t.Context(), telemetry.ParseTraceParents(header))
			for range 10_000 { // more than wait to be sent
				_, span := o.Tracer.Serve(ctx, "served")
				span.End()
			}
			began := time.Now()
			o.Close()
			if took := time.Since(began); took > 20*time.Second { // 3 s, and what a busy machine adds
				t.Errorf("the end took %v", took)
			}
		})
	}
}
