package sim

import (
	"fmt"
	"math"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// referee follows every unit from its grant to the request that it admitted, and
// notes the first promise that is broken. Promises have the numbers of the
// guarantees in docs/guarantees.md.
type referee struct {
	w    *World
	err  error
	keys map[counterKey]*account
	list []*account // of keys, by age

	lives   int64        // PoPs that there were, each life counted
	repeats bool         // see forgetful
	ahead   limit.Micros // where the region's clock was before it was set back
}

// account is what the referee keeps of one counter.
type account struct {
	key  counterKey
	rule *Rule
	Totals

	onLease   int64            // granted, neither admitted nor back nor lost
	returning map[uint32]int64 // given back and on its way, by lease
	periods   map[uint32]int64 // admitted, by the period that was charged
	losses    int64            // of the counter's state
	extra     int64            // live leases when the rule changed
	most      int64            // the largest limit that held lately
	floor     int64            // of a token bucket, see checkFlow
	trickled  int64            // admitted by regions in windows that they had renounced
	lost      map[uint32]int64 // what regions may use again in a window, see [account.again]
	log       []charged        // of a sliding log
	exact     limit.State
	period    limit.Micros // of the clock, in which a token bucket admitted last
	span      int64        // admitted in it
	debts     debts
	alone     alone
}

// debts is units that were admitted without a lease, and what became of them.
type debts struct {
	owed     int64 // by PoPs, as their accounts clamp it
	reported int64 // to the region, each debt once
	charged  int64 // as far as what is left of the limit shows it
	again    int64 // of these, those whose names the counters have forgotten: they may be charged again
	lost     int64 // by PoPs that forgot them with everything else
}

// Totals are counts of one key over a run.
type Totals struct {
	Offered, Admitted   int64 // units; Admitted by leases and overdrafts
	Exact               int64 // units that one exact limiter would have admitted
	Requests, Waited    int64
	Asks, Denials       int64
	Degraded, Overdrawn int64 // units
	Worst               int64 // units admitted in the window with the most; of a token bucket in that period of the clock
}

func (ref *referee) fail(promise int, format string, args ...any) {
	if ref.err == nil {
		ref.w.world.Stop()
		ref.err = fmt.Errorf("seed %d, %.3f ms: promise %d: %s", ref.w.Seed,
			float64(ref.w.now()-epochStart)/float64(limit.Millisecond), promise, fmt.Sprintf(format, args...))
	}
}

func (ref *referee) account(key counterKey) *account {
	a := ref.keys[key]
	if a == nil {
		r := ref.w.rules.find(key.rule)
		a = &account{key: key, rule: r, returning: map[uint32]int64{}, periods: map[uint32]int64{}, lost: map[uint32]int64{}, most: r.Terms.Capacity, floor: math.MaxInt64}
		ref.keys[key] = a
		ref.list = append(ref.list, a)
	}
	return a
}

func (ref *referee) accountOf(p Part) *account {
	return ref.account(p.Rule.counter(p.Key))
}

// Totals are the counts of a key.
func (w *World) Totals(r *Rule, key string) Totals {
	return w.ref.accountOf(Part{Rule: r, Key: key}).Totals
}

// offered asks the exact limiter the same question.
func (ref *referee) offered(r *request) {
	for _, p := range r.parts {
		a := ref.accountOf(p)
		a.Requests++
		a.Offered += p.Cost
		var d limit.Decision
		a.exact, d = p.Rule.Limit.Acquire(a.exact, ref.w.counters.clock(), limit.Ask{Need: p.Cost, Waiting: p.Cost, Want: p.Cost})
		a.Exact += d.Granted
	}
}

func (ref *referee) waits(r *request) {
	for _, p := range r.parts {
		ref.accountOf(p).Waited++
	}
}

func (ref *referee) finished(r *request) {
	ref.compare(r)
	if ref.w.Trace == nil {
		return
	}
	verdict := "rejected"
	if r.admitted {
		verdict = "admitted"
	}
	if r.failed {
		verdict += " by on_failure"
	}
	for _, p := range r.parts {
		ref.w.tracef("  %s/%s cost %d %s", p.Rule.Name, p.Key, p.Cost, verdict)
	}
}

// move changes what of a key is out on lease.
func (ref *referee) move(a *account, onLease int64) {
	ref.checkFlow(a)
	a.onLease += onLease
	ref.checkFlow(a)
}

// granted follows a grant of the region's counters.
func (ref *referee) granted(it *item) {
	a, g := ref.account(it.key), &it.grant
	if it.want.Want == 0 {
		return
	}
	a.Asks++
	if g.Granted == 0 {
		a.Denials++
		return
	}
	ref.move(a, g.Granted)
	if g.Granted < it.want.Need || g.Granted > it.want.Want {
		ref.fail(1, "%v: granted %d to a want of %d needing %d", it.key, g.Granted, it.want.Want, it.want.Need)
	}
}

// forgotten follows what a PoP loses that starts anew.
func (ref *referee) forgotten(p *pop) {
	for key, b := range p.books {
		b.debts.lost += b.owes
		for _, h := range b.held {
			ref.vanished(key, h.units)
		}
	}
}

// vanished notes units that nobody can spend any more and nobody gives back.
func (ref *referee) vanished(key counterKey, units int64) {
	if units != 0 {
		ref.move(ref.account(key), -units)
	}
}

// sent notes what a call gives back, and returned that it has come, or is lost.
func (ref *referee) sent(c *call) {
	for i := range c.items {
		back := c.items[i].back()
		ref.account(back.key).returns(back.lease, back.units)
	}
}

// returns notes units of a lease that begin to be on their way back, or end to be.
func (a *account) returns(l uint32, units int64) {
	if a.returning[l] += units; a.returning[l] == 0 {
		delete(a.returning, l)
	}
}

func (ref *referee) returned(back lot) {
	a := ref.account(back.key)
	a.returns(back.lease, -back.units)
	if missing := -a.returning[back.lease]; missing > 0 {
		if !ref.repeats {
			ref.fail(1, "%v: units given back twice", back.key)
		}
		delete(a.returning, back.lease)
		back.units -= missing // they were not out
	}
	ref.vanished(back.key, back.units)
}

// settled follows what comes back to the counters, and debts that are reported: each of them
// once.
func (ref *referee) settled(it *item) {
	ref.comesBack(it)
	debt := debtID{it.key, it.want.Debt}
	if it.want.Overdrawn > 0 && it.grant.Status != lease.Unavailable && !ref.w.counters.debts[debt] {
		ref.w.counters.debts[debt] = true
		ref.account(it.key).debts.reported += it.want.Overdrawn
	}
}

// comesBack follows what an ask gives back to the counters, whether it arrives or is lost.
func (ref *referee) comesBack(it *item) {
	if back := it.back(); back.units > 0 {
		ref.returned(back)
	}
}

// lostCall follows a call that does not arrive, lostReply an answer.
func (ref *referee) lostCall(c *call) {
	for i := range c.items {
		if !c.aside {
			ref.comesBack(&c.items[i])
		}
	}
}

func (ref *referee) lostReply(c *call) {
	for i := range c.items {
		lost := c.items[i].granted()
		ref.vanished(lost.key, lost.units)
	}
}

// charged follows a debt that is charged: what was admitted without a lease is charged
// once. Counters that were lost may charge it again, to new ones.
func (ref *referee) charged(key counterKey, units int64) {
	a := ref.account(key)
	a.debts.charged += max(units, 0)
	if d := &a.debts; d.charged > d.owed+d.again && a.losses == 0 && a.extra == 0 {
		ref.fail(1, "%v: %d were admitted without a lease, and %d charged for it", key, d.owed, d.charged)
	}
}

// changed is a rule whose limit changes under an account: from now on the larger
// of the two may be admitted, and what is out on lease. A bucket's promise over
// intervals begins anew; the leases that are out are part of it.
func (ref *referee) changed(a *account, before *Rule) {
	if a.rule.Limit.Shape() != before.Limit.Shape() {
		return
	}
	a.most = max(a.most, a.rule.Terms.Capacity)
	if a.rule.Limit.Spec().Algorithm == limit.TokenBucket {
		a.floor = math.MaxInt64
		return
	}
	a.extra += a.onLease
}

// forgetful notes that a tier has forgotten which calls it has seen: one that the
// network repeats may be applied twice, which is part of what a loss may cost.
func (ref *referee) forgetful() {
	if ref.w.world.Net.Repeat > 0 && !ref.repeats {
		ref.repeats = true
		ref.w.lost()
	}
}

// admits counts units that were admitted.
func (ref *referee) admits(a *account, units int64) {
	a.Admitted += units
	if s := &a.rule.Spec; s.Algorithm == limit.TokenBucket {
		if period := ref.w.counters.clock() / s.Period; a.period != period {
			a.period, a.span = period, 0
		}
		a.span += units
		a.Worst = max(a.Worst, a.span)
	}
}

// overdrawn counts units that an optimistic PoP has admitted without a lease.
func (ref *referee) overdrawn(a *account, units int64) {
	a.Overdrawn += units
	ref.admits(a, units)
	now := max(ref.w.counters.clock(), ref.ahead)
	if inWindows(a.rule.Limit) {
		now -= now % a.rule.Spec.Period
	}
	period := a.rule.Limit.PeriodID(now)
	a.periods[period] += units
	ref.checkPeriod(a, period)
	ref.checkFlow(a)
}

// accepted follows whether a service takes a call: of those that it does not take it has
// taken one before.
func (ref *referee) accepted(l *life, c *call) {
	if c.name != (callName{}) && !c.accepted && l.seen[c.name] < 2 {
		ref.fail(11, "%s: call %d of worker %x was rejected as repeated", c.Link.From, c.name.seq, c.name.worker)
	}
}

// admitted counts units of a lease that were admitted, charged at that time.
func (ref *referee) admitted(b *book, l uint32, at limit.Micros, units int64) {
	a := b.account
	ref.admits(a, units)
	ref.counts(b, l, units)
	ref.move(a, -units)
	if a.onLease < 0 {
		ref.fail(1, "%v: more admitted than was granted", a.key)
	}
	if p := b.part(l); a.rule.Spec.Algorithm == limit.SlidingLog && (p == nil || !p.debt) {
		a.log = append(a.log, charged{at, units})
	}
	ref.checkFlow(a)
}
