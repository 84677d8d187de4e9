package stack

// SetRateLimit puts Envoy's own rate limit filter before the others, which asks the
// service at addr about domain. actions are those of the rate limits of all routes,
// each a list as in Envoy's configuration.
func (b *Bootstrap) SetRateLimit(addr, domain string, actions ...[]any) {
	filters, _ := b.manager()["http_filters"].([]any)
	b.manager()["http_filters"] = append([]any{node{
		"name": "envoy.filters.http.ratelimit",
		"typed_config": node{
			"@type":                      "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
			"domain":                     domain,
			"timeout":                    "5s", // machines are busy; 20 ms is Envoy's default
			"failure_mode_deny":          true, // or a service that is away would look like one that admits
			"enable_x_ratelimit_headers": "DRAFT_VERSION_03",
			"rate_limit_service": node{
				"transport_api_version": "V3",
				"grpc_service":          node{"envoy_grpc": node{"cluster_name": "ratelimit"}},
			},
		},
	}}, filters...)
	var limits []any
	for _, a := range actions {
		limits = append(limits, node{"actions": a})
	}
	host := b.first(b.child(b.manager(), "route_config"), "virtual_hosts")
	host["rate_limits"] = limits

	endpoint := node{}
	cluster := node{
		"name":            "ratelimit",
		"type":            "STATIC",
		"connect_timeout": "1s",
		"typed_extension_protocol_options": node{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": node{
				"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": node{"http2_protocol_options": node{}},
			},
		},
		"load_assignment": node{
			"cluster_name": "ratelimit",
			"endpoints":    []any{node{"lb_endpoints": []any{node{"endpoint": endpoint}}}},
		},
	}
	endpoint["address"] = node{"socket_address": node{}}
	b.setAddress(endpoint, addr)
	resources := b.child(b.tree, "static_resources")
	clusters, _ := resources["clusters"].([]any)
	resources["clusters"] = append(clusters, cluster)
}
