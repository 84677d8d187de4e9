package envoy

import (
	"path/filepath"

	"github.com/weirlimit/weir/test/kit/proc"
)

// SetTracing has Envoy trace requests, as envoy/tracing.yaml has it, and send the spans to a
// collector soon. The filter tags them.
func (b *Bootstrap) SetTracing(collector string) {
	b.t.Helper()
	parts := readBootstrap(b.t, filepath.Join(proc.Root(b.t), "envoy", "tracing.yaml"))
	b.manager()["tracing"] = parts.child(parts.tree, "tracing")
	filters, _ := b.manager()["http_filters"].([]any)
	b.manager()["http_filters"] = append([]any{parts.child(parts.tree, "filter")}, filters...)
	cluster := parts.child(parts.tree, "cluster")
	static := b.child(b.tree, "static_resources")
	clusters, _ := static["clusters"].([]any)
	static["clusters"] = append(clusters, cluster)
	b.SetCluster("otel_collector", collector)
	b.tree["layered_runtime"] = node{"layers": []any{node{
		"name": "soon", "static_layer": node{"tracing.opentelemetry.flush_interval_ms": 200},
	}}}
	b.SetPlugin(node{"span_tags": true})
}
