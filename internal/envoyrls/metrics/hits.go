package metrics

import (
	"regexp"
	"strings"
	"sync"

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

	mu   sync.Mutex
	kept map[statLabels]*hitCounts
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
		kept:       map[statLabels]*hitCounts{},
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

// hitCounts are the counters of one set of labels.
type hitCounts struct {
	labels  statLabels
	metrics *HitMetrics
	users   int // rules, of which some have the same labels; metrics.mu is held
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

// of returns the counters of a name in statistics, which the caller releases when it does
// not need them any more. It is nil if m is.
func (m *HitMetrics) of(stat string) *hitCounts {
	if m == nil {
		return nil
	}
	labels := labelsOf(stat)
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.kept[labels]
	if h == nil {
		h = &hitCounts{labels: labels, metrics: m}
		m.kept[labels] = h
	}
	h.users++
	return h
}

// release removes the counters from the metrics when they have no user any more.
func (h *hitCounts) release() {
	if h == nil {
		return
	}
	m := h.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.users--; h.users > 0 {
		return
	}
	delete(m.kept, h.labels)
	for _, vec := range m.vecs {
		vec.DeleteLabelValues(h.labels[:]...)
	}
}

func (h *hitCounts) add(kind hitKind, n int64) {
	if n > 0 {
		h.metrics.vecs[kind].WithLabelValues(h.labels[:]...).Add(float64(n))
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
	if c.hits == nil {
		return
	}
	c.hits.add(totalHits, h.Hits)
	if !h.Known {
		return
	}
	used, near := max(0, h.Used), NearAt(h.Capacity)
	if !h.Over {
		c.hits.add(withinHits, h.Hits)
		c.hits.add(nearHits, min(h.Hits, used+h.Hits-near))
		return
	}
	beyond := min(h.Hits, used+h.Hits-h.Capacity)
	c.hits.add(overHits, beyond)
	if used < h.Capacity {
		c.hits.add(nearHits, h.Capacity-max(near, used))
	}
	if h.Shadow {
		c.hits.add(shadowHits, beyond)
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
