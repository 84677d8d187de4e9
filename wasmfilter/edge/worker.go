// Package edge is a point of presence (PoP) as a state machine: requests, ticks and
// replies of the region go in; verdicts and calls to be made come out. It uses no
// Envoy, no clock and no network; package filter connects it to them.
//
// A [Worker] is one worker thread's part of the PoP. What the workers of an Envoy
// share lies in a [table.Store]: the keys' leases, the process' identity, the
// rules, and which worker does the background work. A worker keeps to itself what
// belongs to its own streams: requests that wait, calls in flight, slots in use, a
// cache of denials, and subleases of hot keys.
//
//	w.Match(request), w.Decide(now) ─▶ Admit | Deny | Wait
//	w.Reply(now, call, body), w.Failed(now, call), w.Tick(now), w.End(now, request)
//	w.Calls, w.Decided      ─▶ what to send, and which waiting requests to resume
//
// All rules that match a request apply, and all or none of them are charged: when one rule
// rejects, what was taken for the others is put back. A request whose keys have
// units on lease is decided by one compare-and-set per rule. One that finds no
// units waits: its want joins those of other requests, travels with the next call,
// and the reply decides it. Shadow rules use a table, calls and a breaker of their
// own, and nothing waits for them.
//
// What a worker decides by is below: the rules and the configuration in package rulebook,
// the calls to the region in package uplink, what the workers agree on in package pop, and
// the entries of the keys in package table. None of these knows what a request is. What
// somebody sees who watches the running system is in package live.
//
// Nothing here is safe for concurrent use; each worker is one thread.
package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/live"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/shedding"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// What the tables are called in the store, see [table.New].
const (
	enforcedTable    = 'E'
	shadowTable      = 'S'
	slotsTable       = 'C'
	shadowSlotsTable = 'D'
)

// Port is where a worker and its owner meet: what the owner has to do, and what it
// may read. It may set the counters to zero after reading them.
type Port struct {
	uplink.Port
	// Decided are the requests that waited and have a verdict now; the owner resumes
	// them and empties the list.
	Decided []*Request
	// Trace returns the traceparent of the request that is being decided; it is
	// called when the request begins to wait. nil: there is none.
	Trace func() string

	// Unreported is units that were admitted without a lease and that are not
	// reported to the region: their rule is gone.
	Unreported uint64
	BeforeAny  uint64 // requests decided by before_rules
}

// Worker is one worker thread's part of a PoP: a few machines, each of which uses
// only those above it. Create it with [New].
type Worker struct {
	Port
	cfg rulebook.Config

	ticked lease.Millis // the last tick; 0: there was none
	late   bool         // it was late

	pop      *pop.PoP           // what the workers of the PoP agree on
	leader   *pop.Leader        // which of them does the background work
	rules    *rulebook.Rulebook // which rules are in force
	uplink   *uplink.Uplink     // calls to the region
	accounts accounts           // what is known of each key
	slots    slots              // concurrency slots in use
	sheds    *shedding.Rules    // requests in flight by shed rules
	asks     asks               // keys that are asked for
	decider  decider            // requests
	upkeep   upkeep             // background work
	live     *live.Reporter     // what somebody sees who watches
}

// New returns a worker. Entropy is six words of real randomness. A worker always
// starts: with a configuration that was rejected cfg is the last good one, or the
// zero Config.
func New(cfg rulebook.Config, store table.Store, entropy [6]uint64, now lease.Millis, wall limit.Micros) *Worker {
	w := &Worker{cfg: cfg.WithDefaults(), pop: pop.Join(store, entropy)}
	w.SetClock(now, wall)
	w.leader = pop.NewLeader(w.pop, w.cfg.Hash)
	w.rules = rulebook.New(&w.cfg, w.pop, w.leader, w.equip, w.useRules)
	w.uplink = uplink.New(&w.cfg, &w.Port.Port, w.pop, w.rules)
	w.accounts = accounts{port: &w.Port, pop: w.pop, rules: w.rules, uplink: w.uplink}
	w.accounts.init(w.cfg.PagesLog2)
	w.slots = slots{
		pop: w.pop, holdings: map[uint64]*holding{},
		enforced: table.NewPool(store, slotsTable), shadow: table.NewPool(store, shadowSlotsTable),
	}
	w.sheds = shedding.New(w.pop)
	w.asks = asks{uplink: w.uplink, slots: &w.slots, pending: map[uint64]*ask{}}
	w.live = live.New(&w.cfg, w.pop, w.rules, w.uplink, now)
	w.decider.rules, w.decider.live, w.decider.sheds = w.rules, w.live, w.sheds
	w.decider.taker = taker{port: &w.Port, pop: w.pop, accounts: &w.accounts, slots: &w.slots, uplink: w.uplink, asks: &w.asks}
	w.upkeep = upkeep{pop: w.pop, rules: w.rules, accounts: &w.accounts, slots: &w.slots, uplink: w.uplink, asks: &w.asks}
	if w.rules.Start(now) {
		w.uplink.FetchRules(now)
	}
	w.leader.Enlist()
	return w
}

// equip gives a policy the means that the rule decides with.
func (w *Worker) equip(p *rulebook.Policy) {
	p.Table, p.Denials = w.accounts.enforced, &w.accounts.enforcedDenials
	if p.Shadow {
		p.Table, p.Denials = w.accounts.shadow, &w.accounts.shadowDenials
	}
	if !p.Local {
		p.Lane = w.uplink.LaneFor(p.Terms.Timeout, p.Shadow)
	}
}

// useRules follows a change of the rules.
func (w *Worker) useRules() {
	w.accounts.enforcedDenials.Clear()
	w.accounts.shadowDenials.Clear()
	w.sheds.Use(w.rules.InForce.Set, w.rules.CountsOf)
}

// Match finds the rules that apply to a request: what they need of it is in. False if none does: then
// it passes, and there is nothing to decide or to end.
func (w *Worker) Match(in *rule.Request) bool {
	w.leader.Busy = true
	return w.rules.InForce == nil || w.decider.match(in)
}

// Excludes reports that no rule applies to a request, by its path alone.
func (w *Worker) Excludes(in *rule.Request) bool {
	w.leader.Busy = true
	return w.rules.InForce.Set.Excludes(in, &w.decider.matches)
}

// Exempt is the name of the exempt rule that the request of the last Match passes by; empty if there is none.
func (w *Worker) Exempt() string {
	if m := &w.decider.matches; w.rules.InForce != nil && len(m.Exempt) > 0 {
		return w.rules.InForce.Set.Rule(m.Exempt[0]).Name
	}
	return ""
}

// Decide takes the request of the last Match through the rules. The verdict is r.Outcome, which it
// returns.
func (w *Worker) Decide(now lease.Millis, r *Request) Outcome {
	r.begin(now)
	if w.rules.InForce == nil {
		w.BeforeAny++
		if w.cfg.DenyBeforeRules {
			r.Outcome, r.Status, r.Degraded, r.RetryAfter = Deny, 503, true, failedRetry
		}
		return r.Outcome
	}
	w.decider.decide(now, r)
	w.uplink.Flush(now)
	return r.Outcome
}

// Reply takes the body of a successful answer to a call. Calls that are not known,
// or ended already, are ignored.
func (w *Worker) Reply(now lease.Millis, id uint64, body []byte) {
	w.ended(now, w.uplink.End(now, id, uplink.CallAnswered, body))
}

// Failed takes a call that got no answer that could be read.
func (w *Worker) Failed(now lease.Millis, id uint64, result uplink.CallResult) {
	w.ended(now, w.uplink.End(now, id, result, nil))
}

// ended decides the requests that waited for a call, and makes the calls that
// waited for its end.
func (w *Worker) ended(now lease.Millis, f *uplink.Flight) {
	if f != nil {
		w.decider.settle(now, f)
		w.uplink.Flush(now)
	}
}

// End ends a request, however it ended: its slots are free again, and an answer
// that is still to come is not for it.
func (w *Worker) End(now lease.Millis, r *Request) { w.decider.end(now, r) }

// Samples reports whether the owner is to look at the response to an admitted request, see [Worker.Responded]: of those with
// a shed rule at the first one after a tick, and at one in 16.
func (w *Worker) Samples(r *Request) bool { return w.sheds.Samples(r.sheds) }

// Responded takes what a response says of the upstream: whether it is a failure, and its load, see [shed.Load].
func (w *Worker) Responded(now lease.Millis, r *Request, failed bool, load int64) {
	w.sheds.Responded(now, r.sheds, failed, load)
}

// Sheds are the shed rules.
func (w *Worker) Sheds() *shedding.Rules { return w.sheds }

// Tick does what is due without a request; the owner calls it every 100 ms.
func (w *Worker) Tick(now lease.Millis, wall limit.Micros) {
	w.SetClock(now, wall)
	w.late = w.ticked > 0 && now > w.ticked+lateTick && !w.late
	w.ticked = now
	w.sheds.Tick(now)
	w.decider.revisit(now, w.late)
	w.upkeep.renewSlots(now)
	w.upkeep.putBack(now)
	if w.rules.Watch(now) {
		w.uplink.FetchRules(now)
	}
	if w.leader.Lead(now) {
		w.upkeep.scan(now)
	}
	w.uplink.Tick(now)
	w.uplink.Flush(now)
	w.report(now)
}

// lateTick is after how long a tick is more than 50 ms late: the worker was busy, and may not have sent
// the calls yet, or read their answers. Such a tick decides no request by on_failure; the next one does.
const lateTick lease.Millis = 150

// report sends a report to somebody who watches, if one is due.
func (w *Worker) report(now lease.Millis) {
	if e := w.rules.Error; e != "" { // it has that now
		w.live.Problem(now, e)
	}
	fill := w.Fill()
	w.live.Tick(now, fill.Keys, fill.Places)
}

// Problem notes what went wrong, for reports.
func (w *Worker) Problem(now lease.Millis, text string) { w.live.Problem(now, text) }

// SetClock sets which time of day it is at now; at least once a minute.
func (w *Worker) SetClock(now lease.Millis, wall limit.Micros) { w.pop.SetClock(now, wall) }

// DecidedAt is the time of day at which a request was decided.
func (w *Worker) DecidedAt(r *Request) limit.Micros { return w.pop.TimeOfDay(r.arrived + r.Waited) }

// Inputs returns what the rules in force look at; nil if there are no rules.
func (w *Worker) Inputs() *rule.Inputs {
	if w.rules.InForce == nil {
		return nil
	}
	return w.rules.InForce.Set.Inputs()
}

// Rules are those in force, with their counters.
func (w *Worker) Rules() *rulebook.Rulebook { return w.rules }

// Tables returns what happened in the tables since the last call.
func (w *Worker) Tables() table.Counts {
	counts := w.accounts.enforced.Counts
	sum := *counts
	*counts = table.Counts{}
	return sum
}

// Sublease returns the units of a key that this worker took out of the account that the workers share,
// for requests to come.
func (w *Worker) Sublease(k table.Key) holder.Part { return w.accounts.subleases.Of(k) }

// Fill returns how full the tables are, as the leader has counted about every 10 s; zero if another worker leads.
func (w *Worker) Fill() (f Fill) {
	if w.leader.Leads {
		f = w.upkeep.fill
	}
	return f
}
