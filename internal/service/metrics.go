package service

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
)

// metrics are the service's instruments.
type metrics struct {
	wants, granted, returned, overdrawn, denials, grants, slots, giveBacks, blocks *telemetry.CounterVec

	callWants  telemetry.Histogram
	duplicates telemetry.Counter
	unknown    telemetry.Counter
	rejected   telemetry.Counter
	noRoom     telemetry.Counter
	noMemory   telemetry.Counter
	abandoned  telemetry.Counter
	behind     telemetry.Counter

	wantsRejected *telemetry.CounterVec
}

// ruleCounts are the instruments of one rule, or of one of its overrides with when and a name: then those that
// do not tell overrides apart are the rule's.
type ruleCounts struct {
	override string // its name; empty for the rule

	wants, granted, returned, overdrawn, denials, giveBacks, blocks telemetry.Counter
	grants                                                          [lease.UnknownRule + 1]telemetry.Counter // by status
}

func newMetrics(r *telemetry.Registry) *metrics {
	return &metrics{
		wants:     r.Counters("weir_wants_total", "Wants of holders: one for each counter that a call asks for.", "rule", "override"),
		grants:    r.Counters("weir_grants_total", "Answers to wants: ok, denied, or unavailable (could not be decided).", "rule", "override", "status"),
		granted:   r.Counters("weir_units_granted_total", "Units granted to holders; for concurrency the slots of each answer.", "rule", "override"),
		returned:  r.Counters("weir_units_returned_total", "Unused units that holders gave back.", "rule"),
		overdrawn: r.Counters("weir_units_overdrawn_total", "Units that holders admitted without a lease, as they report them; repeated until acknowledged.", "rule"),
		slots:     r.Counters("weir_slots_total", "Calls of requests for slots, by rule: take, renew or release, and ok, denied or unavailable.", "rule", "op", "status"),
		denials:   r.Counters("weir_edge_denials_total", "Requests that holders rejected from memory, as they report them.", "rule"),
		blocks:    r.Counters("weir_blocks_total", "Blocks that began: a key that had reached a limit with on_limit asked for more.", "rule"),
		giveBacks: r.Counters("weir_give_backs_rejected_total", "Give-backs of which nothing was taken back: more units than the limit can have handed out.", "rule"),

		callWants:     r.Histogram("weir_acquire_wants", "Wants per call of Acquire.", telemetry.Doubling(1, 11)),
		duplicates:    r.Counter("weir_acquire_duplicates_total", "Repeated calls, and those that an Envoy in between states to send again: they are dropped."),
		unknown:       r.Counter("weir_wants_unknown_rule_total", "Wants for a rule or variant that is not in the rules."),
		rejected:      r.Counter("weir_acquire_rejected_total", "Calls rejected as a whole: malformed, no common protocol, no holder, or too many holders."),
		noRoom:        r.Counter("weir_holders_rejected_total", "Calls of new holders that were rejected, because their address or the memory for callers has its most."),
		noMemory:      r.Counter("weir_calls_rejected_total", "Calls that were rejected, because those in flight, or those of their address, take the memory for calls."),
		wantsRejected: r.Counters("weir_wants_rejected_total", "Wants answered as unavailable because a field is out of range, by field.", "reason"),
		abandoned:     r.Counter("weir_acquire_unheard_total", "Calls whose caller hung up before the answer; what they were granted went back."),
		behind:        r.Counter("weir_acquire_newer_rules_total", "Calls of holders that have newer rules than this replica: its rules file is late, or was set back without a larger revision."),
	}
}

func (m *metrics) rule(name string) *ruleCounts {
	c := &ruleCounts{
		returned:  m.returned.WithLabelValues(name),
		overdrawn: m.overdrawn.WithLabelValues(name),
		denials:   m.denials.WithLabelValues(name),
		giveBacks: m.giveBacks.WithLabelValues(name),
		blocks:    m.blocks.WithLabelValues(name),
	}
	return m.override(c, name, "")
}

// override is the instruments of a rule with those of one of its overrides.
func (m *metrics) override(of *ruleCounts, rule, name string) *ruleCounts {
	c := *of
	c.override = name
	c.wants, c.granted = m.wants.WithLabelValues(rule, name), m.granted.WithLabelValues(rule, name)
	for status := lease.OK; status <= lease.Unavailable; status++ {
		c.grants[status] = m.grants.WithLabelValues(rule, name, statusNames[status])
	}
	return &c
}

// forget drops the series of rules and overrides that are gone.
func (m *metrics) forget(before, after *catalog) {
	for name, e := range before.rules {
		if after.rules[name] == nil {
			for _, vec := range []*telemetry.CounterVec{m.wants, m.granted, m.returned, m.overdrawn, m.denials, m.grants, m.slots, m.giveBacks, m.blocks} {
				vec.DeletePartialMatch(telemetry.Labels{"rule": name})
			}
			continue
		}
		for id, of := range e.overrides {
			if after.rules[name].overrides[id] == nil {
				for _, vec := range []*telemetry.CounterVec{m.wants, m.granted, m.grants} {
					vec.DeletePartialMatch(telemetry.Labels{"rule": name, "override": of.override})
				}
			}
		}
	}
}

// statusNames are the labels of statuses that a store answers.
var statusNames = [lease.UnknownRule + 1]string{lease.OK: "ok", lease.Denied: "denied", lease.Unavailable: "unavailable"}

// count counts a want and its answer.
func (c *ruleCounts) count(a *engine.Ask, g *lease.Grant) {
	c.wants.Inc()
	if n := c.grants[g.Status]; n != nil {
		n.Inc()
	}
	if g.Block == limit.BlockBegan {
		c.blocks.Inc()
	}
	add(c.granted, g.Granted)
	add(c.returned, a.Want.Unused)
	add(c.overdrawn, a.Want.Overdrawn)
	add(c.denials, a.Want.Denied)
}

func add(c telemetry.Counter, units int64) {
	if units > 0 {
		c.Add(float64(units))
	}
}
