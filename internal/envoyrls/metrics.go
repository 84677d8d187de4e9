package envoyrls

import (
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/telemetry"
)

// result is the outcome of a descriptor, for metrics.
type result uint8

const (
	within     result = iota
	near              // within, and more than four fifths of the limit are used
	over              // over the limit
	other             // not over, but not charged: another descriptor of the request was over
	shadowOver        // over, and allowed, because the rule is in shadow mode
	peeked            // asked without being charged, and not over
	unlimited
	replaced // by the rule of another descriptor
	results
)

var resultNames = [results]string{"within", "near", "over", "other", "shadow_over", "peeked", "unlimited", "replaced"}

// nearFifths is the part of a limit beyond which it is near, in fifths, as in
// envoyproxy/ratelimit.
const nearFifths = 4

// maxDetailed bounds the number of names that detailed_metric and value_to_metric make in
// one configuration, and maxName the length of each, in bytes. Others are counted under
// the rule's own name.
const (
	maxDetailed = 1000
	maxName     = 512
)

// counts are the counters of one name. Each is made when it is first needed: otherwise a
// large configuration would have a hundred thousand that stay at zero.
type counts struct {
	name     string
	metrics  *metrics
	hits     *hitCounts // nil: not configured, or envoyproxy/ratelimit has no such name
	results  [results]atomic.Pointer[telemetry.Counter]
	degraded [engine.FailedDenied + 1]atomic.Pointer[telemetry.Counter]
}

func (c *counts) result(r result) {
	counter(&c.results[r], c.metrics.decisions, c.name, resultNames[r]).Inc()
}

func (c *counts) countDegraded(how engine.Degraded) {
	counter(&c.degraded[how], c.metrics.degraded, c.name, how.String()).Inc()
}

// drop removes the counters from the metrics. Requests in flight may still count on them,
// without effect.
func (c *counts) drop() {
	c.hits.release()
	for _, name := range resultNames {
		c.metrics.decisions.DeleteLabelValues(c.name, name)
	}
	for how := engine.Sound; how <= engine.FailedDenied; how++ {
		c.metrics.degraded.DeleteLabelValues(c.name, how.String())
	}
}

// counter returns a counter, which it makes if there is none yet.
func counter(c *atomic.Pointer[telemetry.Counter], vec *telemetry.CounterVec, labels ...string) telemetry.Counter {
	p := c.Load()
	if p == nil {
		made := vec.WithLabelValues(labels...) // the same for all who make it
		p = &made
		c.Store(p)
	}
	return *p
}

// metrics are the server's instruments.
type metrics struct {
	ok, overLimit               telemetry.Counter // requests by code
	invalid, unconfigured       telemetry.Counter
	internal                    telemetry.Counter
	noDomain, noRule, noBinding telemetry.Counter // descriptors by what was missing
	unbound                     telemetry.Gauge   // bindings that limit nothing
	decisions, degraded         *telemetry.CounterVec
	seconds                     telemetry.Histogram
	hits                        *hitMetrics // nil: not wanted

	byRule   sync.Map // name to *counts; there are as many as rules, and names of domains
	mu       sync.RWMutex
	detailed map[string]*counts // at most maxDetailed
}

func newMetrics(r *telemetry.Registry, hits bool) *metrics {
	requests := r.Counters("weir_rls_requests_total", "Requests of Envoy's rate limit service, by what was answered.", "code")
	unmatched := r.Counters("weir_rls_unmatched_total", "Descriptors that were allowed without being counted, by what there was none of.", "missing")
	return &metrics{
		ok:           requests.WithLabelValues("ok"),
		overLimit:    requests.WithLabelValues("over_limit"),
		invalid:      requests.WithLabelValues("invalid"),
		unconfigured: requests.WithLabelValues("unconfigured"),
		internal:     requests.WithLabelValues("internal"),
		noDomain:     unmatched.WithLabelValues("domain"),
		noRule:       unmatched.WithLabelValues("rule"),
		noBinding:    unmatched.WithLabelValues("binding"),
		unbound:      r.Gauge("weir_descriptors_unbound", "Bindings in force that limit nothing: their rule has gone, is off, or is one that cannot be bound."),
		decisions: r.Counters("weir_rls_decisions_total",
			"Descriptors that a rule matched, by what came of them; near: more than 80 % of the limit is used.", "rule", "result"),
		degraded: r.Counters("weir_rls_degraded_total",
			"Descriptors decided without the store: allow or deny (on_failure), local (this replica's share), denied (as before the failure).", "rule", "how"),
		seconds:  r.Histogram("weir_rls_seconds", "Time to answer a request, from when it was read to its reply.", telemetry.Doubling(16e-6, 16)),
		hits:     newHitMetrics(r, hits),
		detailed: map[string]*counts{},
	}
}

// rule finds or makes the counters of a rule. stat is its name in envoyproxy/ratelimit's
// statistics; empty if it has none there.
func (m *metrics) rule(name, stat string) *counts {
	if c, ok := m.byRule.Load(name); ok {
		return c.(*counts)
	}
	made := &counts{name: name, metrics: m}
	if stat != "" {
		made.hits = m.hits.of(stat)
	}
	c, there := m.byRule.LoadOrStore(name, made)
	if there {
		made.hits.release()
	}
	return c.(*counts)
}

// of returns the counters of a descriptor. Its values are in their name if the rule is
// configured so; buffer is for that name.
func (m *metrics) of(p *prepared, entries []descriptor.Entry, buffer []byte) (*counts, []byte) {
	if p.rule == nil || !p.rule.DetailedMetric && !p.rule.ValueToMetric {
		return p.counts, buffer
	}
	buffer = p.rule.AppendMetric(buffer[:0], entries)
	m.mu.RLock()
	c, full := m.detailed[string(buffer)], len(m.detailed) >= maxDetailed
	m.mu.RUnlock()
	switch {
	case c != nil:
		return c, buffer
	case full || len(buffer) > maxName: // the usual case where clients choose many names: no lock
		return p.counts, buffer
	}
	return m.detail(p, buffer, entries), buffer
}

// detail makes the counters of a name with a client's values, if there is room.
func (m *metrics) detail(p *prepared, name []byte, entries []descriptor.Entry) *counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.detailed[string(name)]; c != nil {
		return c
	}
	if len(m.detailed) >= maxDetailed {
		return p.counts
	}
	var c *counts
	if same, ok := m.byRule.Load(string(name)); ok {
		c = same.(*counts) // the file has a rule for this very value
	} else {
		stat := p.rule.AppendStatName(nil, entries)
		c = &counts{name: string(name), metrics: m, hits: m.hits.of(string(stat))}
	}
	m.detailed[c.name] = c
	return c
}

// forget removes the metrics of a configuration that was replaced: the names with clients'
// values, and those of rules that do not exist any more.
func (m *metrics) forget(before, now map[*descriptor.Rule]*prepared) {
	kept := make(map[string]bool, len(now))
	for r := range now {
		kept[r.Path] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, c := range m.detailed {
		if _, ok := m.byRule.Load(name); !ok {
			c.drop()
		}
	}
	clear(m.detailed)
	for r, p := range before {
		if !kept[r.Path] {
			m.byRule.Delete(r.Path)
			p.counts.drop()
		}
	}
}
