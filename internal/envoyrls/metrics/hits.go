package metrics

import (
	"regexp"
	"strings"

	"github.com/weirlimit/weir/internal/telemetry"
)

// HitMetrics are the metrics of envoyproxy/ratelimit, under the names and labels that it
// exports to Prometheus (USE_PROMETHEUS), so that its dashboards and alerts still work.
// They count hits, which are the cost of a descriptor, and not descriptors.
type HitMetrics struct {
	vecs [hitKinds]*telemetry.CounterVec

	requests, serviceErrors, storeErrors telemetry.Counter
	loads, loadErrors                    telemetry.Counter
	seconds                              telemetry.Observer
}

// hitKind is the outcome of hits. A descriptor that crosses a limit has hits of both
// kinds.
type hitKind uint8

const (
	totalHits  hitKind = iota
	overHits           // beyond the limit
	nearHits           // of what was admitted, those beyond four fifths of the limit
	withinHits         // of descriptors that are not over
	shadowHits         // those of overHits that are in shadow mode
	hitKinds
)

// newHitMetrics declares the metrics; nil if they are not wanted.
func newHitMetrics(r *telemetry.Registry, wanted bool) *HitMetrics {
	if !wanted {
		return nil
	}
	const method = "ShouldRateLimit"
	m := &HitMetrics{
		requests:   r.Counters("ratelimit_service_total_requests", "Requests.", "grpc_method").WithLabelValues(method),
		seconds:    r.Histograms("ratelimit_service_response_time_seconds", "Time to answer a request.", telemetry.UsualBounds(), "grpc_method").WithLabelValues(method),
		loads:      r.Counter("ratelimit_service_config_load_success", "Configurations that were put in force."),
		loadErrors: r.Counter("ratelimit_service_config_load_error", "Configurations that were not, for a mistake."),
	}
	failures := r.Counters("ratelimit_service_should_rate_limit_error",
		"Requests that are wrong (service_error), and that were decided without the store (redis_error).", "err_type")
	m.serviceErrors, m.storeErrors = failures.WithLabelValues("service_error"), failures.WithLabelValues("redis_error")
	for kind, name := range [hitKinds]struct{ name, help string }{
		{"total_hits", "Hits on limits."},
		{"over_limit", "Hits beyond the limit."},
		{"near_limit", "Hits within the limit and beyond four fifths of it."},
		{"within_limit", "Hits of descriptors that are within their limit."},
		{"shadow_mode", "Hits beyond the limit that passed, because the rule is in shadow mode."},
	} {
		m.vecs[kind] = r.Counters("ratelimit_service_rate_limit_"+name.name, name.help, "domain", "key1", "key2")
	}
	return m
}

// statLabels are domain, key1 and key2 of a name in statistics.
type statLabels [3]string

var (
	addresses  = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
	separators = regexp.MustCompile(`[:|\p{Cc}\x{fffd}]`) // and what no label has
)

// labelsOf splits a name as envoyproxy/ratelimit's exporter does: at every dot, also
// inside a domain or a value, but not inside an IPv4 address. Only two keys become labels.
// An empty label is the same as no label.
func labelsOf(stat string) (l statLabels) {
	stat = separators.ReplaceAllString(stat, "_")
	stat = addresses.ReplaceAllStringFunc(stat, func(a string) string { return strings.ReplaceAll(a, ".", "_") })
	copy(l[:], strings.Split(stat, "."))
	return l
}

// remove removes labels from the metrics of hits.
func (m *HitMetrics) remove(l statLabels) {
	if m == nil {
		return
	}
	for _, vec := range m.vecs {
		vec.DeleteLabelValues(l[:]...)
	}
}

// Charge is what a descriptor did to its counter.
type Charge struct {
	Hits, Capacity int64
	Used           int64 // before it
	Known          bool  // Used is
	Over, Shadow   bool  // it is over its limit; in shadow mode
}

// Charge counts the hits of a descriptor, if that is wanted.
func (c *Counts) Charge(h Charge) {
	if c.hits == (statLabels{}) {
		return
	}
	add := func(kind hitKind, n int64) {
		if n > 0 {
			c.metrics.Hits.vecs[kind].WithLabelValues(c.hits[:]...).Add(float64(n))
		}
	}
	add(totalHits, h.Hits)
	if !h.Known {
		return
	}
	used, near := max(0, h.Used), NearAt(h.Capacity)
	if !h.Over {
		add(withinHits, h.Hits)
		add(nearHits, min(h.Hits, used+h.Hits-near))
		return
	}
	beyond := min(h.Hits, used+h.Hits-h.Capacity)
	add(overHits, beyond)
	if used < h.Capacity {
		add(nearHits, h.Capacity-max(near, used))
	}
	if h.Shadow {
		add(shadowHits, beyond)
	}
}

// request counts a request, whether it was wrong, and its duration.
func (m *HitMetrics) request(seconds float64, wrong bool) {
	if m == nil {
		return
	}
	m.requests.Inc()
	m.seconds.Observe(seconds)
	if wrong {
		m.serviceErrors.Inc()
	}
}

// Degraded counts a request that was decided without the store.
func (m *HitMetrics) Degraded() {
	if m != nil {
		m.storeErrors.Inc()
	}
}

// Load counts a configuration, and why it was not put in force.
func (m *HitMetrics) Load(err error) {
	switch {
	case m == nil:
	case err == nil:
		m.loads.Inc()
	default:
		m.loadErrors.Inc()
	}
}
