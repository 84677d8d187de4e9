package sim

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/wire"
	edgecalls "github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// TestFaultsAreCaught breaks one thing at a time.
func TestFaultsAreCaught(t *testing.T) {
	catches(t, 200, func(seed uint64, f Fault) error { return play(t, seed+1, f) },
		GrantsTwice, AppliesTwice, MergesLots, OutlivesParent, SpendsEarly, ChargesTwice, ForgetsDebts)
}

// catches plays up to so many runs with each fault, and wants a check to see it: a check that
// nothing can fail proves nothing.
func catches(t *testing.T, runs uint64, play func(seed uint64, f Fault) error, faults ...Fault) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			for seed := range runs {
				if err := play(seed, f); err != nil {
					t.Logf("caught by run %d: %v", seed, err)
					return
				}
			}
			t.Errorf("nobody noticed a simulator that %s", f)
		})
	}
}

// None is no fault.
var None Fault

// GrantsTwice: a grant is not charged now and then; the next hands the same units out again.
var GrantsTwice = Fault{name: "grants twice", counters: func(v *visit) {
	v.acquire()
	for i, g := range v.grants {
		if g.Granted > 0 && v.chance(0.05) {
			back := engine.Ask{Policy: v.asks[i].Policy, Key: v.asks[i].Key, Want: lease.Want{Unused: g.Granted, Lease: g.Lease}}
			v.store.Acquire(v.ctx, []engine.Ask{back}, make([]lease.Grant, 1))
		}
	}
}}

// ForgetsSpentKeys: a full store forgets counters that are not fresh.
var ForgetsSpentKeys = Fault{name: "forgets spent keys", counters: func(v *visit) {
	v.acquire()
	if slices.ContainsFunc(v.grants, func(g lease.Grant) bool { return g.Status == lease.Unavailable }) {
		v.counters.reset()
	}
}}

// ChargesTwice: a debt is charged as often as it is reported.
var ChargesTwice = Fault{name: "charges twice", counters: func(v *visit) {
	for i := range v.asks {
		v.asks[i].Want.Debt = 0
	}
	v.acquire()
}}

// OutlivesParent: a tier in the middle grants for longer than it holds.
var OutlivesParent = Fault{name: "outlives parent", cache: func(v *visit) {
	v.acquire()
	for i := range v.grants {
		v.grants[i].TTL *= 3
	}
}}

// AppliesTwice: calls are not distinguished by seq.
var AppliesTwice = Fault{name: "applies twice", served: func(serial uint64, m *wire.Request) { m.Worker = serial }}

// MixesWorkers: the calls of all workers of a PoP are taken for one sequence.
var MixesWorkers = Fault{name: "mixes workers", served: func(_ uint64, m *wire.Request) { m.Worker = 1 }}

// ForgetsDebts: a debt is not reported, and taken for acknowledged.
var ForgetsDebts = Fault{name: "forgets debts", calls: func(_ *pop, m *wire.Request) {
	for i := range m.Wants {
		m.Wants[i].Overdrawn, m.Wants[i].Debt = 0, 0
	}
}}

// apart is another call of the same PoP, without wants, that no worker has made.
func (c *call) apart() *call {
	again := &call{p: c.p, req: c.req, sent: c.sent, aside: true}
	again.req.Wants = nil
	c.p.apart++
	again.req.Seq, again.req.Ack, again.req.Worker = c.p.apart, 0, 1
	return again
}

// add puts a want for the same counter as m into such a call.
func (c *call) add(m wire.Want, units int64, shape, id uint32) {
	c.req.Wants = append(c.req.Wants, wire.Want{
		Rule: m.Rule, Variant: m.Variant, Override: m.Override, Key: m.Key, Shape: shape, Want: lease.Want{Unused: units, Lease: id},
	})
}

// fly sends such a call, as another one was.
func (c *call) fly(like *call) {
	c.items, c.name = c.p.w.items(c.req.Wants), nameOf(&c.req)
	c.p.Call(edgecalls.Call{Path: like.Flight.Path, Body: c.req.Append(nil), Timeout: like.Flight.Timeout}, c)
}

// SpendsEarly: units of the next window are spent at once.
var SpendsEarly = Fault{name: "spends early", replies: func(m *wire.Response) {
	for i := range m.Grants {
		m.Grants[i].StartsIn = 0
	}
}}

// ForgetsDenials: a denial is forgotten at once.
var ForgetsDenials = Fault{name: "forgets denials", replies: func(m *wire.Response) {
	for i := range m.Grants {
		g := &m.Grants[i]
		g.AskAfter, g.RetryAfter, g.Remaining = 0, 0, g.Limit
	}
}}

// DeniesItsOwn: a denial is taken for one of all that costs as much, whatever the PoP has
// itself.
var DeniesItsOwn = Fault{name: "denies its own", denies: func(p *pop, part Part) bool {
	e, now := p.entry(part.Rule.counter(part.Key)), p.Now()
	return now < e.Ends && e.Phase == holder.PhaseDenied && part.Cost >= e.Least && e.Available(now) < part.Cost
}}

// MergesLots: a top-up is added to the older lot and prolongs it.
var MergesLots = Fault{name: "merges lots", table: func(p *pop) {
	for key := range p.books {
		if e := p.entry(key); e.Leases[0].Units > 0 && e.Leases[1].Units > 0 && !e.Leases[0].Local && !e.Leases[1].Local {
			e.Leases[1].Units += e.Leases[0].Units
			e.Leases[0].Units = 0
			p.reader.Commit(p.Now())
		}
	}
}}
