//go:build linux

package shed

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/load/rig"
)

// The systems, in the order of their turns. Peers are those that shed, too.
const (
	bare      = "bare"
	adaptive  = "adaptive_concurrency"
	admission = "admission_control"
	weir      = "Weir"
)

var (
	systems = []string{bare, adaptive, admission, weir}
	peers   = []string{adaptive, admission}
)

// The shed rules, by what they know: requests in flight, or the load that answers state.
const (
	byFlight = "flight"
	byHeader = "header"
)

// inFlight is the capacity that Weir is told: with 30 in flight, three quarters of it, each server has work, and
// requests wait for 60 ms.
const inFlight = 40

type system struct {
	*envoy.Envoy
	upstream *upstream
}

func start(r *rig.Rig, name string) *system {
	s := &system{upstream: startUpstream(r)}
	s.Envoy = envoy.New(r, envoy.Config{Dir: r.Dir, Name: name, Listener: "pop", Workers: 2})
	b := s.Bootstrap
	b.OnlyListener("pop")
	b.DropAccessLog()
	b.TrustClients()
	b.SetCluster("upstream", s.upstream.addrs...)
	b.SetLeastRequest("upstream")
	switch name {
	case bare:
		b.SetFilter(nil)
	case adaptive:
		b.SetFilter(filter(name, "AdaptiveConcurrency", map[string]any{
			"gradient_controller_config": map[string]any{
				"sample_aggregate_percentile": map[string]any{"value": 90},
				"concurrency_limit_params":    map[string]any{"concurrency_update_interval": "0.1s"},
				"min_rtt_calc_params": map[string]any{
					"interval": "60s", "request_count": 50, "jitter": map[string]any{"value": 10}},
			}}))
	case admission:
		b.SetFilter(filter(name, "AdmissionControl", map[string]any{"success_criteria": map[string]any{}}))
	case weir:
		place := region.New(r, region.Config{Dir: r.Dir, Rules: rules()})
		place.Start()
		b.SetPlugin(map[string]any{"pop": "shed"})
		b.SetCluster("weir_region", place.Addr)
	}
	s.Start()
	if name == weir {
		proc.Eventually(r, time.Minute, "the PoP has its rules", func() bool { return s.Stat("wasmcustom.weir.rules_revision") > 0 })
	}
	return s
}

// filter is one of Envoy's own.
func filter(name, message string, config map[string]any) map[string]any {
	config["@type"] = "type.googleapis.com/envoy.extensions.filters.http." + name + ".v3." + message
	return map[string]any{"name": "envoy.filters.http." + name, "typed_config": config}
}

// rules are two shed rules: one whose capacity is near what the upstream does, and one whose capacity is so large
// that only the load that answers state moves it.
func rules() (text string) {
	text = "rules:\n"
	for _, rule := range []string{byFlight, byHeader} {
		capacity := inFlight
		if rule == byHeader {
			capacity = 1000
		}
		text += fmt.Sprintf("  - name: %s\n    match: { path: { prefix: /%s/ } }\n    key: [ { header: x-user-id } ]\n"+
			"    shed:\n      capacity: %d\n      profile: fast\n      classes:\n", rule, rule, capacity)
		for _, c := range []class{critical, low, bulk} { // the others are normal
			text += fmt.Sprintf("        - { class: %s, match: { path: { prefix: /%s/%s/ } } }\n", c, rule, c)
		}
	}
	return text
}
