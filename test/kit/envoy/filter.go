package envoy

import (
	"maps"
	"os"
	"slices"

	"github.com/weirlimit/weir/envoy/overlay"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// SetFilter puts a filter in the place of the one named weir; nil leaves the place
// empty.
func (b *Bootstrap) SetFilter(filter map[string]any) {
	chain := b.manager()["http_filters"].([]any)
	i := overlay.Index(chain, "weir")
	if chain = slices.Delete(chain, i, i+1); filter != nil {
		chain = slices.Insert(chain, i, any(filter))
	}
	b.manager()["http_filters"] = chain
}

// AddFilter puts a filter before the one named weir.
func (b *Bootstrap) AddFilter(filter map[string]any) {
	chain := b.manager()["http_filters"].([]any)
	b.manager()["http_filters"] = slices.Insert(chain, overlay.Index(chain, "weir"), any(filter))
}

// SetLocalRateLimit puts the local rate limiting that is built into Envoy in the place
// of the filter: one bucket for all requests, of perSecond tokens that refill each
// second; 0 admits one request per day.
func (b *Bootstrap) SetLocalRateLimit(perSecond int) {
	bucket := node{"max_tokens": perSecond, "tokens_per_fill": perSecond, "fill_interval": "1s"}
	if perSecond == 0 {
		bucket = node{"max_tokens": 1, "tokens_per_fill": 1, "fill_interval": "86400s"}
	}
	always := node{"default_value": node{"numerator": 100, "denominator": "HUNDRED"}}
	b.SetFilter(node{
		"name": "envoy.filters.http.local_ratelimit",
		"typed_config": node{
			"@type":           "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
			"stat_prefix":     "native",
			"token_bucket":    bucket,
			"filter_enabled":  always,
			"filter_enforced": always,
		},
	})
}

// SetLeastRequest has each request of a cluster go to the host that has the fewest in flight.
func (b *Bootstrap) SetLeastRequest(cluster string) {
	b.cluster(cluster)["load_balancing_policy"] = node{"policies": []any{node{"typed_extension_config": node{
		"name": "least_request",
		"typed_config": node{
			"@type":            "type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
			"selection_method": "FULL_SCAN",
		}}}}}
}

// SetHTTP2 has Envoy speak HTTP/2 to a cluster, without TLS.
func (b *Bootstrap) SetHTTP2(cluster string) {
	const name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	b.cluster(cluster)["typed_extension_protocol_options"] = node{name: node{
		"@type": "type.googleapis.com/" + name, "explicit_http_config": node{"http2_protocol_options": node{}}}}
}

// FilterFrom has Envoy read the filter's configuration from a file (ECDS), and again whenever the function that it
// returns replaces the file by what the bootstrap had then, with these plugin fields laid over it.
func (b *Bootstrap) FilterFrom(path string) (write func(fields map[string]any)) {
	const kind = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
	resource := node{"@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig", "name": "weir",
		"typed_config": node{"@type": kind, "config": b.wasm()}}
	config, plugin := b.at(b.wasm(), "configuration"), b.Plugin()
	b.SetFilter(node{"name": "weir", "config_discovery": node{"type_urls": []any{kind}, "config_source": node{
		"resource_api_version": "V3", "path_config_source": node{"path": path}}}})
	write = func(fields map[string]any) {
		maps.Copy(plugin, fields)
		config["value"] = b.marshal(plugin)
		next := proc.WriteFile(b.t, path+".next", b.marshal(node{"resources": []any{resource}}))
		fatal.If(b.t, os.Rename(next, path))
	}
	write(nil)
	return write
}
