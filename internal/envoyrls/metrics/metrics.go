// Package metrics counts the answers of Envoy's rate limit service: requests, descriptors by rule and, if enabled, hits under
// the names of envoyproxy/ratelimit.
package metrics

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Result is the outcome of a descriptor.
type Result uint8

const (
	Within     Result = iota
	Near              // within, and more than [NearAt] of the limit are used
	Over              // over the limit
	Other             // not over, but not charged: another descriptor of the request was over
	ShadowOver        // over, and allowed, because the rule is in shadow mode
	Peeked            // asked without being charged, and not over
	Unlimited
	Replaced // by the rule of another descriptor
	results
)

var resultNames = [results]string{"within", "near", "over", "other", "shadow_over", "peeked", "unlimited", "replaced"}

// NearAt is how much of a limit is used where it begins to be near: four fifths, as in
// envoyproxy/ratelimit.
func NearAt(capacity int64) int64 { return capacity * 4 / 5 }

// maxDetailed bounds the number of names that detailed_metric and value_to_metric make in
// one configuration, and maxName the length of each, in bytes. Others are counted under
// the rule's own name.
const (
	maxDetailed = 1000
	maxName     = 512
)

// Counts are the counters of one name. Each is made when it is first needed: otherwise a
// large configuration would have a hundred thousand that stay at zero.
type Counts struct {
	Name    string
	metrics *Metrics
	hits    statLabels // zero: not wanted, or envoyproxy/ratelimit has no such name
}

// Count counts a descriptor.
func (c *Counts) Count(r Result) {
	c.metrics.decisions.WithLabelValues(c.Name, resultNames[r]).Inc()
}

// Metrics are the instruments of a server. They are safe for concurrent use.
type Metrics struct {
	Requests  *telemetry.CounterVec // by what was answered
	Unmatched *telemetry.CounterVec // descriptors, by what was missing: domain, rule or binding
	Unbound   telemetry.Gauge       // bindings that limit nothing
	Hits      *HitMetrics           // nil: not wanted

	seconds   telemetry.Histogram
	decisions *telemetry.CounterVec

	mu       sync.Mutex
	detailed map[string]*Counts // at most maxDetailed
}

// New declares the metrics; those of hits if they are wanted.
func New(r *telemetry.Registry, hits bool) *Metrics {
	m := &Metrics{
		Requests:  r.Counters("weir_rls_requests_total", "Requests of Envoy's rate limit service, by what was answered.", "code"),
		Unmatched: r.Counters("weir_rls_unmatched_total", "Descriptors that were allowed without being counted, by what there was none of.", "missing"),
		Unbound:   r.Gauge("weir_ratelimit_bindings_unbound", "Bindings in force that limit nothing: their rule has gone, is off, or is one that cannot be bound."),
		decisions: r.Counters("weir_rls_decisions_total",
			"Descriptors that a rule matched, by what came of them; near: more than 80 % of the limit is used.", "rule", "result"),
		seconds:  r.Histogram("weir_rls_seconds", "Time to answer a request, from when it was read to its reply.", telemetry.Doubling(16e-6, 16)),
		Hits:     newHitMetrics(r, hits),
		detailed: map[string]*Counts{},
	}
	for _, code := range []string{"ok", "over_limit", "unread", "invalid", "unconfigured", "internal"} {
		m.Requests.WithLabelValues(code) // it is there from the start, with 0
	}
	for _, missing := range []string{"domain", "rule", "binding"} {
		m.Unmatched.WithLabelValues(missing)
	}
	return m
}

// Answered counts a request, whether it was wrong, and how long it took.
func (m *Metrics) Answered(seconds float64, wrong bool) {
	m.seconds.Observe(seconds)
	m.Hits.request(seconds, wrong)
}

// Rule returns the counters of a rule. stat is its name in envoyproxy/ratelimit's
// statistics; empty if it has none there.
func (m *Metrics) Rule(name, stat string) *Counts {
	c := &Counts{Name: name, metrics: m}
	if m.Hits != nil && stat != "" {
		c.hits = labelsOf(stat)
	}
	return c
}

// Of returns the counters of a descriptor whose rule has the counters c. r is that rule, if it
// is one of the configuration, else nil: its values are in their name if the rule is
// configured so and there is room. buffer is for that name.
func (m *Metrics) Of(c *Counts, r *descriptor.Rule, entries []descriptor.Entry, buffer []byte) (*Counts, []byte) {
	if r == nil || !r.DetailedMetric && !r.ValueToMetric {
		return c, buffer
	}
	buffer = r.AppendMetric(buffer[:0], entries)
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.detailed[string(buffer)]
	if own == nil && len(m.detailed) < maxDetailed && len(buffer) <= maxName {
		own = m.Rule(string(buffer), string(r.AppendStatName(nil, entries)))
		m.detailed[own.Name] = own
	}
	return cmp.Or(own, c), buffer
}

// Forget removes the metrics of a configuration that was replaced: the names with clients'
// values, and those of rules that do not exist any more. A request in flight may bring one back.
func (m *Metrics) Forget(before, now *descriptor.Config) {
	names, labels := map[string]bool{}, map[statLabels]bool{}
	for r := range now.Rules() {
		c := m.Rule(r.Path, string(r.AppendStatName(nil, nil)))
		names[c.Name], labels[c.hits] = true, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := slices.Collect(maps.Values(m.detailed))
	for r := range before.Rules() {
		gone = append(gone, m.Rule(r.Path, string(r.AppendStatName(nil, nil))))
	}
	clear(m.detailed)
	for _, c := range gone {
		for _, result := range resultNames {
			if !names[c.Name] {
				m.decisions.DeleteLabelValues(c.Name, result)
			}
		}
		if !labels[c.hits] {
			m.Hits.remove(c.hits)
		}
	}
}
