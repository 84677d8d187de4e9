package envoy

// SetTracing has Envoy trace requests, as envoy/tracing.yaml has it, and send the spans to a
// collector soon. The filter tags them.
func (b *Bootstrap) SetTracing(collector string) {
	b.t.Helper()
	b.Lay("tracing.yaml")
	b.SetCluster("otel_collector", collector)
	b.tree["layered_runtime"] = node{"layers": []any{node{
		"name": "soon", "static_layer": node{"tracing.opentelemetry.flush_interval_ms": 200},
	}}}
	b.SetPlugin(node{"span_tags": true})
}
