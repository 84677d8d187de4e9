package envoyrls

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/telemetry"
)

// hitMetrics are the metrics of envoyproxy/ratelimit, under the names and labels that it
// exports to Prometheus (USE_PROMETHEUS), so that its dashboards and alerts still work.
// They count hits, which are the cost of a descriptor, and not descriptors.
type hitMetrics struct {
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
func newHitMetrics(r *telemetry.Registry, wanted bool) *hitMetrics {
	if !wanted {
		return nil
	}
	const method = "ShouldRateLimit"
	m := &hitMetrics{
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

// hitCounts are the counters of one set of labels, each made when it is first needed.
type hitCounts struct {
	labels  statLabels
	metrics *hitMetrics
	kinds   [hitKinds]atomic.Pointer[telemetry.Counter]
	users   int // rules, of which some have the same labels; metrics.mu is held
}

// statLabels are domain, key1 and key2 of a name in statistics.
type statLabels [3]string

var addresses = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// labelsOf splits a name as envoyproxy/ratelimit's exporter does: at every dot, also
// inside a domain or a value, but not inside an IPv4 address. Only two keys become labels.
// An empty label is the same as no label.
func labelsOf(stat string) (l statLabels) {
	stat = strings.NewReplacer(":", "_", "|", "_").Replace(strings.ToValidUTF8(stat, "_"))
	stat = addresses.ReplaceAllStringFunc(stat, func(a string) string { return strings.ReplaceAll(a, ".", "_") })
	copy(l[:], strings.Split(stat, "."))
	return l
}

// of returns the counters of a name in statistics, which the caller releases when it does
// not need them any more. It is nil if m is.
func (m *hitMetrics) of(stat string) *hitCounts {
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
		counter(&h.kinds[kind], h.metrics.vecs[kind], h.labels[:]...).Add(float64(n))
	}
}

// count counts the hits of descriptor i. left is what the reply has as remaining.
func (h *hitCounts) count(q *query, i int, left int64) {
	d := &q.descriptors[i]
	v, n, capacity := &q.judgments[d.ask], d.hits, d.rule.policy.Terms.Capacity
	h.add(totalHits, n)
	if !informed(v) {
		return
	}
	used := capacity - left
	if v.Admitted && !q.free && !d.refused {
		used -= n
	}
	used = max(0, used)
	near := capacity * nearFifths / 5
	if !d.refused {
		h.add(withinHits, n)
		h.add(nearHits, min(n, used+n-near))
		return
	}
	beyond := min(n, used+n-capacity)
	h.add(overHits, beyond)
	if used < capacity {
		h.add(nearHits, capacity-max(near, used))
	}
	if d.rule.mode == shadow {
		h.add(shadowHits, beyond)
	}
}

// request counts a request and its duration.
func (m *hitMetrics) request(seconds float64, err error) {
	if m == nil {
		return
	}
	m.requests.Inc()
	m.seconds.Observe(seconds)
	if wrong := (*RequestError)(nil); errors.As(err, &wrong) {
		m.serviceErrors.Inc()
	}
}

// degraded counts a request that was decided without the store.
func (m *hitMetrics) degraded() {
	if m != nil {
		m.storeErrors.Inc()
	}
}

// load counts a configuration.
func (m *hitMetrics) load(err error) {
	switch {
	case m == nil:
	case err == nil:
		m.loads.Inc()
	default:
		m.loadErrors.Inc()
	}
}
