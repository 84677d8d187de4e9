package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Port is where a worker and its owner meet: what the owner has to do, and what it
// may read.
type Port struct {
	// Calls are to be made, in order; the owner makes them and empties the list. Each
	// ends in exactly one of Reply and Failed, which may add others.
	Calls []Call
	// Decided are the requests that waited and have a verdict now; the owner resumes
	// them and empties the list.
	Decided []*Request
	// ConfigError is what is wrong with the configuration or with rules that were
	// offered; empty if nothing. What was in force before stays in force.
	ConfigError string
	// AnswerError is what is wrong with an answer of the region that could not be
	// used; the owner shows it to the operator and empties it.
	AnswerError string
	Counts      Counts
	// Trace returns the traceparent of the request that is being decided; it is
	// called when the request begins to wait. nil: there is none.
	Trace func() string

	lastCall uint64
}

// Worker is one worker thread's part of a PoP: a few machines, each of which uses
// only those above it. Create it with [New].
type Worker struct {
	Port
	cfg Config

	pop      pop      // what the workers of the PoP agree on
	leader   leader   // which of them does the background work
	rules    rulebook // which rules are in force
	accounts accounts // what is known of each key
	slots    slots    // concurrency slots in use
	uplink   uplink   // calls to the region
	decider  decider  // requests
	upkeep   upkeep   // background work
}

// New returns a worker. Entropy is six words of real randomness. A worker always
// starts: with a configuration that was refused cfg is the last good one, or the
// zero Config.
func New(cfg Config, store table.Store, entropy [6]uint64, now lease.Millis, wall limit.Micros) *Worker {
	w := &Worker{cfg: cfg.withDefaults()}
	w.ConfigError = cfg.Error
	w.SetClock(now, wall)
	w.pop.join(store, entropy)
	w.leader = leader{pop: &w.pop, cfg: &w.cfg}
	w.rules = rulebook{
		cfg: &w.cfg, port: &w.Port, pop: &w.pop, leader: &w.leader,
		counts: map[string]*RuleCounts{}, equip: w.equip, changed: w.accounts.useRules,
	}
	w.accounts.init(&w.Port, &w.pop, &w.rules, w.cfg.PagesLog2)
	w.slots = slots{
		pop: &w.pop, holdings: map[uint64]*holding{},
		enforced: table.NewPool(store, slotsTable), shadow: table.NewPool(store, shadowSlotsTable),
	}
	w.uplink = uplink{
		cfg: &w.cfg, port: &w.Port, pop: &w.pop, rules: &w.rules, slots: &w.slots,
		sequence: sequence{caller: w.pop.number}, asks: map[uint64]*ask{}, flights: map[uint64]*flight{},
	}
	w.decider.rules = &w.rules
	w.decider.taker = taker{port: &w.Port, pop: &w.pop, accounts: &w.accounts, slots: &w.slots, uplink: &w.uplink}
	w.upkeep = upkeep{port: &w.Port, pop: &w.pop, rules: &w.rules, accounts: &w.accounts, slots: &w.slots, uplink: &w.uplink}
	w.rules.start(now)
	w.leader.enlist()
	return w
}

// equip gives a policy the means that the rule decides with.
func (w *Worker) equip(p *policy) {
	p.table, p.denials = w.accounts.enforced, &w.accounts.enforcedDenials
	if p.shadow {
		p.table, p.denials = w.accounts.shadow, &w.accounts.shadowDenials
	}
	if !p.local {
		p.lane = w.uplink.lane(p.terms.Timeout, p.shadow)
	}
}

// Decide takes a request through the rules: what the rules need of it is in, the
// verdict is r.Outcome, which it returns.
func (w *Worker) Decide(now lease.Millis, in *rule.Request, r *Request) Outcome {
	r.begin(now)
	w.leader.busy = true
	if w.rules.inForce == nil {
		w.Counts.BeforeAny++
		if w.cfg.DenyBeforeRules {
			r.Outcome, r.Status, r.Degraded, r.RetryAfter = Deny, 503, true, failedRetry
		}
		return r.Outcome
	}
	w.decider.decide(now, in, r)
	w.uplink.flush(now)
	return r.Outcome
}

// Reply takes the body of a successful answer to a call. Calls that are not known,
// or ended already, are ignored.
func (w *Worker) Reply(now lease.Millis, id uint64, body []byte) {
	if w.rules.ended(id) {
		w.Counts.Calls[w.rules.receive(now, body)]++
		return
	}
	w.ended(now, w.uplink.reply(now, id, body))
}

// Failed takes a call that got no answer that could be read.
func (w *Worker) Failed(now lease.Millis, id uint64, result CallResult) {
	if w.rules.ended(id) {
		w.Counts.Calls[result]++
		return
	}
	w.ended(now, w.uplink.fail(now, id, result))
}

// ended decides the requests that waited for a call, and makes the calls that
// waited for its end.
func (w *Worker) ended(now lease.Millis, f *flight) {
	if f != nil {
		w.decider.settle(now, f)
		w.uplink.flush(now)
	}
}

// End ends a request, however it ended: its slots are free again, and an answer
// that is still to come is not for it.
func (w *Worker) End(now lease.Millis, r *Request) { w.decider.end(now, r) }

// Tick does what is due without a request; the owner calls it every 100 ms.
func (w *Worker) Tick(now lease.Millis, wall limit.Micros) {
	w.SetClock(now, wall)
	w.pop.readEpoch()
	w.accounts.settleParked(now)
	w.decider.expire(now)
	w.upkeep.renewSlots(now)
	w.rules.watch(now)
	if w.leader.lead(now) {
		w.upkeep.scan(now)
	}
	w.uplink.tick(now)
	w.uplink.flush(now)
}

// SetClock sets which time of day it is at now; at least once a minute.
func (w *Worker) SetClock(now lease.Millis, wall limit.Micros) {
	w.pop.wall = wall - limit.Micros(now)*limit.Millisecond
}

// Wall is the time of day at now.
func (w *Worker) Wall(now lease.Millis) limit.Micros { return w.pop.timeOfDay(now) }

// Leader reports whether the worker does the PoP's background work.
func (w *Worker) Leader() bool { return w.leader.leads }

// Inputs returns what the rules in force look at; nil if there are no rules.
func (w *Worker) Inputs() *rule.Inputs {
	if w.rules.inForce == nil {
		return nil
	}
	return w.rules.inForce.set.Inputs()
}

// RulesVersion returns the version of the rules in force, empty if there are none.
func (w *Worker) RulesVersion() string { return w.rules.version }

// RulesRevision returns the revision of the rules in force as people count them, 0 if they
// have none; see [rule.Number].
func (w *Worker) RulesRevision() uint64 { return rule.Number(w.rules.revision) }

// RulesAge is how long the rules in force have been that at this PoP, 0 if there are none.
func (w *Worker) RulesAge(now lease.Millis) lease.Millis {
	if w.rules.inForce == nil {
		return 0
	}
	return max(now-w.rules.since, 0)
}

// EachRule calls f with the counters of every rule that was ever in force.
func (w *Worker) EachRule(f func(name string, c *RuleCounts)) {
	for name, c := range w.rules.counts {
		f(name, c)
	}
}

// Tables returns what happened in the tables since the last call.
func (w *Worker) Tables() table.Counts {
	counts := w.accounts.enforced.Counts
	sum := *counts
	*counts = table.Counts{}
	return sum
}

// Fill returns how full the tables are. Only the leader counts: ok is true once for each round
// of its scan, about every 10 s.
func (w *Worker) Fill() (f Fill, ok bool) {
	ok, w.upkeep.news = w.upkeep.news, false
	return w.upkeep.fill, ok
}
