package filter

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/shedding"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// decisionNames are the parts of weir.decisions.rule.R.decision that say how a rule decided. docs/envoy.md explains all metrics.
// Envoy shows them as wasmcustom.NAME; the stats_tags of envoy/pop.yaml turn the parts after rule., override., decision. and
// reason. into labels. No metric is per key. Gauges of Proxy-Wasm are integers, so ratios are per mille.
var decisionNames = [rulebook.Decisions]string{
	rulebook.Allowed:       "allowed",
	rulebook.Denied:        "denied",
	rulebook.ShadowAllowed: "shadow_allowed",
	rulebook.ShadowDenied:  "shadow_denied",
	rulebook.Exempted:      "exempt",
	rulebook.FailedOpen:    "allowed.reason.on_failure",
	rulebook.FailedClosed:  "denied.reason.on_failure",
	rulebook.LocalAllowed:  "allowed.reason.local_share",
	rulebook.LocalDenied:   "denied.reason.local_share",
	rulebook.FullAllowed:   "allowed.reason.table_full",
	rulebook.FullDenied:    "denied.reason.table_full",
	rulebook.Blocked:       "denied.reason.blocked",
}

func decisionName(d rulebook.Decision) string {
	like, class, byShed := d.ByShed()
	if byShed {
		return decisionNames[like] + ".reason." + class.String()
	}
	return decisionNames[like]
}

var callNames = [uplink.CallResults]string{
	uplink.CallAnswered:  "answered",
	uplink.CallTimedOut:  "timeout",
	uplink.CallFailed:    "error",
	uplink.CallMalformed: "malformed",
	uplink.CallVersion:   "version",
}

// Counters, Gauges and Histograms are the names of all metrics, without the values of their labels, for a host that has to
// know them before they are counted.
var (
	Counters = []string{
		"weir.decisions.rule.decision", "weir.decisions.rule.decision.reason",
		"weir.decisions.rule.override.decision", "weir.decisions.rule.override.decision.reason",
		"weir.waits.rule", "weir.waits.rule.override", "weir.missing_keys.rule", "weir.missing_keys.rule.override",
		"weir.missing_costs.rule", "weir.missing_costs.rule.override",
		"weir.calls.reason", "weir.before_rules", "weir.table_evicted", "weir.table_full", "weir.table_corrupt",
		"weir.units_unreported", "weir.panics", "weir.vm_replaced",
	}
	Gauges = []string{
		"weir.config_error", "weir.rules_revision", "weir.rules_age_seconds", "weir.table_keys", "weir.table_places",
		"weir.shed_utilization_permille.rule", "weir.shed_ratio_permille.rule",
	}
	Histograms = []string{"weir.wait_ms"}
)

// stats are the metrics of a plugin. A metric is defined when it is first counted: to
// increment one that is not defined would kill the VM.
type stats struct {
	counters    map[string]uint32
	configError uint32
	raised      uint64
	revision    uint32
	age         uint32
	wait        uint32
	fill        *[2]uint32 // keys and places; nil until the first are known
	sheds       map[string][2]uint32
}

func (s *stats) define(h Host) {
	s.counters, s.sheds = map[string]uint32{}, map[string][2]uint32{}
	s.configError = h.Gauge("weir.config_error")
	s.revision = h.Gauge("weir.rules_revision")
	s.age = h.Gauge("weir.rules_age_seconds")
	s.wait = h.Histogram("weir.wait_ms")
	h.Record(s.configError, 0)
}

func (s *stats) waited(h Host, d lease.Millis) { h.Record(s.wait, uint64(max(d, 0))) }

func (s *stats) replaced(h Host) { s.add(h, "weir.vm_replaced", 1) }

// count adds n to a counter and sets n to zero.
func (s *stats) count(h Host, name string, n *uint64) {
	s.add(h, name, *n)
	*n = 0
}

// rest adds to a counter by how much n has grown since it was shown.
func (s *stats) rest(h Host, name string, n uint64, shown *uint64) {
	s.add(h, name, n-*shown)
	*shown = n
}

func (s *stats) add(h Host, name string, n uint64) {
	if n == 0 {
		return
	}
	m, ok := s.counters[name]
	if !ok {
		m = h.Counter(name)
		s.counters[name] = m
	}
	h.Add(m, int64(n))
}

// flush adds what was counted since the last tick.
func (s *stats) flush(p *plugin, now lease.Millis) {
	h, w := p.host, p.worker
	w.Rules().EachRule(func(name string, c *rulebook.RuleCounts) {
		if c.Counts == c.Shown {
			return
		}
		for d, n := range c.Decided {
			if n > c.Shown.Decided[d] {
				s.rest(h, "weir.decisions.rule."+name+".decision."+decisionName(rulebook.Decision(d)), n, &c.Shown.Decided[d])
			}
		}
		s.rest(h, "weir.waits.rule."+name, c.Waited, &c.Shown.Waited)
		s.rest(h, "weir.missing_keys.rule."+name, c.MissingKey, &c.Shown.MissingKey)
		s.rest(h, "weir.missing_costs.rule."+name, c.MissingCost, &c.Shown.MissingCost)
	})
	for i := range w.Ended {
		s.count(h, "weir.calls.reason."+callNames[i], &w.Ended[i])
	}
	t := w.Tables()
	s.count(h, "weir.before_rules", &w.BeforeAny)
	s.count(h, "weir.table_evicted", &t.Evicted)
	s.count(h, "weir.table_full", &t.Full)
	s.count(h, "weir.table_corrupt", &t.Corrupt)
	s.count(h, "weir.units_unreported", &w.Unreported)
	// Each worker writes these gauges at each tick, so that one that lags behind shows.
	h.Record(s.revision, rule.Number(w.Rules().Revision))
	h.Record(s.age, uint64(w.Rules().Age(now)/1000))
	w.Sheds().Each(func(r *shedding.Rule) { s.shed(h, r) })
	s.fillUp(h, w)
	s.raise(h, w)
}

// shed shows how a shed rule stands. All workers have the same from the record that they share.
func (s *stats) shed(h Host, r *shedding.Rule) {
	m, ok := s.sheds[r.Name]
	if !ok {
		m = [2]uint32{h.Gauge("weir.shed_utilization_permille.rule." + r.Name), h.Gauge("weir.shed_ratio_permille.rule." + r.Name)}
		s.sheds[r.Name] = m
	}
	h.Record(m[0], uint64(r.Utilization))
	h.Record(m[1], uint64(r.Ratio/1000))
}

// fillUp shows how full the tables are, if the worker leads and has counted.
func (s *stats) fillUp(h Host, w *edge.Worker) {
	f := w.Fill()
	if f.Places == 0 {
		return
	}
	if s.fill == nil {
		s.fill = &[2]uint32{h.Gauge("weir.table_keys"), h.Gauge("weir.table_places")}
	}
	h.Record(s.fill[0], uint64(f.Keys))
	h.Record(s.fill[1], uint64(f.Places))
}

// raise sets config_error.
func (s *stats) raise(h Host, w *edge.Worker) {
	v := uint64(0)
	if w.Rules().Error != "" {
		v = 1
	}
	if v != s.raised {
		s.raised = v
		h.Record(s.configError, v)
	}
}
