package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/otlp"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// With the native module, the region's span is below Envoy's span of the first request that waits, also if Envoy has begun
// the trace. It links to Envoy's spans of the other requests that wait for the same call.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := otlp.Start(t)
	s := start(t, stack.Config{PoPs: 1, Workers: 1, Links: true, RegionConfig: "otlp: http://" + collector.Addr + "\n",
		Rules: "rules: [{ name: all, key: [{ header: x-user }], limit: 1000/1d, algorithm: fixed_window, consistency: exact, timeout: 1s }]\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetNative()
			b.Lay("tracing.yaml", "port_value: 4317", "port_value: "+port(collector.Addr), "numerator: 1,", "numerator: 100,")
			b.AllowRuntime()
		}})
	p := s.PoPs[0]
	p.SetRuntime("tracing.opentelemetry.min_flush_spans", "1")
	p.Link.Slow(400 * time.Millisecond)
	proc.Together(6, func(int) { p.Get("/", "x-user", "ann") })
	const sampled, other = "0af7651916cd43dd8448eb211c80319c", "0af7651916cd43dd8448eb211c80319d"
	p.Get("/", "x-user", "eve", "traceparent", "00-"+other+"-b7ad6b7169203331-00")
	p.Get("/", "x-user", "bob", "traceparent", "00-"+sampled+"-b7ad6b7169203331-01")
	proc.Await(t, 30*time.Second, "the spans of a PoP and its region", func() string {
		ofEnvoy, linked, bobs := map[string]string{}, 0, false // the traces of Envoy's spans by the ids of these
		for _, span := range collector.Spans("") {
			if span.Service == "weir-pop" {
				ofEnvoy[span.ID] = span.Trace
			}
		}
		for _, span := range collector.Spans("") {
			if !strings.HasSuffix(span.Name, "/Acquire") {
				continue
			}
			if ofEnvoy[span.Parent] != span.Trace {
				return fmt.Sprintf("%+v is not below one of Envoy's spans", span)
			}
			bobs = bobs || span.Trace == sampled
			for _, id := range span.Links {
				if ofEnvoy[id] == "" {
					return fmt.Sprintf("%+v links to %s, which is not one of Envoy's spans", span, id)
				}
				linked++
			}
		}
		if len(ofEnvoy) < 7 || linked == 0 || !bobs {
			return fmt.Sprintf("%d of 7 spans of Envoy, %d links, the span of a client's trace: %v", len(ofEnvoy), linked, bobs)
		}
		return ""
	})
	if spans := collector.Spans(other); len(spans) > 0 {
		t.Errorf("a trace that is not sampled has spans: %+v", spans)
	}
}
