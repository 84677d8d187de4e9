package sim

import (
	"fmt"
	"math"
	"sort"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

// referee follows every unit from its grant to the request that it admitted, and
// notes the first promise that is broken. Promises have the numbers of the
// guarantees in the README.
type referee struct {
	w    *World
	err  error
	keys map[counterKey]*account
	list []*account      // of keys, by age
	lies map[uint64]bool // names of what never came back

	lives   int64        // PoPs that there were, each life counted
	repeats bool         // see forgetful
	ahead   limit.Micros // where the region's clock was before it was set back
}

// account is what the referee knows of one counter.
type account struct {
	key  counterKey
	rule *Rule
	Totals

	onLease   int64            // granted, neither admitted nor back nor lost
	returning map[uint32]int64 // given back and on its way, by lease
	periods   map[uint32]int64 // admitted by the period that was charged
	overdrawn map[uint32]int64 // admitted without a lease, by the period it was
	losses    int64            // of the counter's state
	extra     int64            // live leases when the rule changed
	most      int64            // the largest limit that held lately
	flow      flow
	log       []charged
	exact     limit.State
	debts     debts
	alone     alone
}

// debts is units that were admitted without a lease, and what became of them.
type debts struct {
	owed    int64 // by PoPs, as their accounts clamp it
	told    int64 // as the region was told, each debt once
	charged int64 // as far as what is left of the limit shows it
	lost    int64 // by PoPs that forgot them with everything else
}

// Totals are counts of one key over a run.
type Totals struct {
	Offered, Admitted   int64 // units; Admitted by leases and overdrafts
	Exact               int64 // units that one exact limiter would have admitted
	Requests, Waited    int64
	Asks, Denials       int64
	Degraded, Overdrawn int64 // units
}

// charged is units of a sliding log at the time from which they count.
type charged struct {
	at    limit.Micros
	units int64
}

func newReferee(w *World) *referee {
	return &referee{w: w, keys: map[counterKey]*account{}, lies: map[uint64]bool{}}
}

// fail notes a broken promise.
func (ref *referee) fail(promise int, format string, args ...any) {
	if ref.err == nil {
		ref.err = fmt.Errorf("seed %d, %.3f ms: promise %d: %s", ref.w.Seed,
			float64(ref.w.now-epochStart)/float64(limit.Millisecond), promise, fmt.Sprintf(format, args...))
	}
}

func (ref *referee) account(key counterKey) *account {
	a := ref.keys[key]
	if a == nil {
		r := ref.w.rules.find(key.rule)
		a = &account{key: key, rule: r, returning: map[uint32]int64{}, periods: map[uint32]int64{}, overdrawn: map[uint32]int64{}, most: r.Terms.Capacity}
		a.flow.floor = math.MaxInt64
		ref.keys[key] = a
		ref.list = append(ref.list, a)
	}
	return a
}

func (ref *referee) accountOf(p Part) *account {
	return ref.account(p.Rule.counter(p.Key))
}

// offered asks the exact limiter the same question.
func (ref *referee) offered(r *request) {
	for i, p := range r.parts {
		a := r.books[i].account
		if p.Rule.slots() {
			continue
		}
		a.Requests++
		a.Offered += p.Cost
		var d limit.Decision
		a.exact, d = p.Rule.Limit.Acquire(a.exact, ref.w.granter.clock(), limit.Ask{Need: p.Cost, Waiting: p.Cost, Want: p.Cost})
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
	verdict := "refused"
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
	a.flow.note(ref.w.now, a)
	a.onLease += onLease
	a.flow.note(ref.w.now, a)
}

// granted follows a grant of the region's counters.
func (ref *referee) granted(k *limiter.Ask, g *lease.Grant) {
	key := keyOf(k)
	a := ref.account(key)
	if k.Want.Want == 0 {
		return
	}
	a.Asks++
	if g.Granted == 0 {
		a.Denials++
		return
	}
	ref.move(a, g.Granted)
	if g.Granted < k.Want.Need || g.Granted > k.Want.Want {
		ref.fail(1, "%v: granted %d to a want of %d needing %d", key, g.Granted, k.Want.Want, k.Want.Need)
	}
}

// forgotten follows what a PoP loses that starts anew.
func (ref *referee) forgotten(p *pop) {
	for key, b := range p.books {
		ref.account(key).debts.lost += b.owes
		for _, lot := range b.lots {
			if !lot.Local {
				ref.vanished(key, lot.Units)
			}
		}
		for _, o := range b.outs {
			ref.vanished(key, o.units)
		}
	}
}

// vanished notes units that nobody can spend any more and nobody gives back.
func (ref *referee) vanished(key counterKey, units int64) {
	if units != 0 {
		ref.move(ref.account(key), -units)
	}
}

// sent, returns and returned follow what is given back.
func (ref *referee) sent(f *flight) {
	for i := range f.req.Wants {
		if m := &f.req.Wants[i]; m.Unused > 0 {
			ref.returns(ref.w.rules.of(m.Rule, m.Key), uint32(m.Lease), int64(m.Unused))
		}
	}
}

func (ref *referee) returns(key counterKey, lease uint32, units int64) {
	ref.account(key).returning[lease] += units
}

func (ref *referee) returned(key counterKey, lease uint32, units int64) {
	a := ref.account(key)
	a.returning[lease] -= units
	if missing := -a.returning[lease]; missing > 0 {
		if !ref.repeats {
			ref.fail(1, "%v: units given back twice", key)
		}
		a.returning[lease] = 0
		units -= missing // they were not out
	}
	ref.vanished(key, units)
}

// settled follows what comes back to the region's counters, and debts that are told: each
// of them once.
func (ref *referee) settled(a *limiter.Ask, g *lease.Grant) {
	key := keyOf(a)
	ref.comesBack(a)
	if a.Want.Overdrawn > 0 && g.Status != lease.Unavailable && !ref.w.granter.debts[debtID{key, a.Want.Debt}] {
		ref.w.granter.debts[debtID{key, a.Want.Debt}] = true
		ref.account(key).debts.told += a.Want.Overdrawn
	}
}

// comesBack follows what an ask gives back to the region's counters, whether it arrives
// or is lost: each give-back once, however many copies of it there are.
func (ref *referee) comesBack(a *limiter.Ask) {
	if own := ownUnused(a); own > 0 {
		ref.returned(keyOf(a), a.Want.Lease, own)
	}
	names := ref.w.granter.names
	for _, r := range a.Returned {
		if !names[r.Name] && !ref.lies[r.Name] {
			ref.returned(keyOf(a), a.Want.Lease, r.Units)
		}
		names[r.Name] = true
	}
}

// lostCall follows a call that does not arrive, lostReply an answer.
func (ref *referee) lostCall(f *flight) {
	for i := range f.req.Wants {
		if m := &f.req.Wants[i]; m.Unused > 0 && !f.aside {
			ref.returned(ref.w.rules.of(m.Rule, m.Key), uint32(m.Lease), int64(m.Unused))
		}
	}
}

func (ref *referee) lostReply(f *flight, r reply) {
	for i := range r.resp.Grants {
		if key := ref.w.rules.of(f.req.Wants[i].Rule, f.req.Wants[i].Key); !ref.account(key).rule.slots() {
			ref.vanished(key, int64(r.resp.Grants[i].Granted))
		}
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
		a.flow = flow{floor: math.MaxInt64}
		return
	}
	a.extra += a.onLease
}

// forgetful notes that a tier has forgotten which calls it has seen: one that the
// network repeats may be applied twice, which is part of what a loss may cost.
func (ref *referee) forgetful() {
	if ref.w.Net.Repeat > 0 && !ref.repeats {
		ref.repeats = true
		ref.w.lost()
	}
}

// overdrawn counts units that an optimistic PoP has admitted without a lease.
func (ref *referee) overdrawn(key counterKey, units int64) {
	a := ref.account(key)
	a.Overdrawn += units
	a.Admitted += units
	now := max(ref.w.granter.clock(), ref.ahead)
	if inWindows(a.rule.Limit) {
		now -= now % a.rule.Spec.Period
	}
	period := a.rule.Limit.PeriodID(now)
	a.overdrawn[period] += units
	ref.checkPeriod(a, period)
	a.flow.admitted += units
	ref.checkFlow(a)
}

// accepted follows whether a replica takes a call: of those that it does not take it has
// taken one before.
func (ref *referee) accepted(r *replica, f *flight, ok bool) {
	if !ok && r.seen[f.name()] < 2 {
		ref.fail(11, "%s: call %d of worker %x was refused as repeated", f.p.name, f.req.Seq, f.req.Worker)
	}
}

// settleDebts checks that no debt is forgotten: it is charged, or its holder owes it.
func (ref *referee) settleDebts() {
	for _, a := range ref.list {
		owing := a.debts.lost
		for _, p := range ref.w.pops {
			if b := p.books[a.key]; b != nil {
				owing += b.owes
			}
		}
		if d := &a.debts; d.told+owing < d.owed {
			ref.fail(1, "%v: of %d admitted without a lease %d were told and %d are owed", a.key, d.owed, d.told, owing)
		}
	}
}

// degraded counts what was admitted because nobody answered.
func (ref *referee) degraded(key counterKey, cost int64) {
	ref.account(key).Degraded += cost
}

func (ref *referee) admitted(a *account, period uint32, at limit.Micros, units int64) {
	a.flow.note(ref.w.now, a)
	a.Admitted += units
	a.onLease -= units
	a.flow.admitted += units
	if a.onLease < 0 {
		ref.fail(1, "%v: more admitted than was granted", a.key)
	}
	a.periods[period] += units
	if a.rule.Spec.Algorithm == limit.SlidingLog {
		a.log = append(a.log, charged{at, units})
	}
	ref.checkPeriod(a, period)
	ref.checkFlow(a)
}

// allowance is what more than the limit may be admitted: overdrafts of optimistic
// holders, a limit for each loss of the counter's state, and what was out on
// lease when the rule changed.
func (ref *referee) allowance(a *account) int64 {
	extra := a.losses*a.most + a.extra
	if a.rule.Terms.Consistency == lease.Optimistic {
		extra += ref.lives * a.rule.Terms.Overdraft * (a.losses + 1)
	}
	return extra
}

func (ref *referee) checkPeriod(a *account, period uint32) {
	if n, bound := a.periods[period]+a.overdrawn[period], a.most+ref.allowance(a); n > bound && inWindows(a.rule.Limit) {
		ref.fail(1, "%v: %d admitted in a window of at most %d", a.key, n, bound)
	}
}

// checkFlow checks a token bucket over all intervals that end now.
func (ref *referee) checkFlow(a *account) {
	s := a.rule.Limit.Spec()
	if s.Algorithm != limit.TokenBucket {
		return
	}
	a.flow.note(ref.w.now, a)
	bound := (a.most + ref.allowance(a)) * int64(s.Period)
	if over := a.flow.level(ref.w.now, a) - a.flow.floor - bound; over > 0 {
		ref.fail(1, "%v: %.3f units more than burst, refill and leases since some earlier time", a.key, float64(over)/float64(s.Period))
	}
}

// flow is a token bucket's promise over all intervals at once. With
//
//	level(t) = admitted until t - rate*(t - start)
//
// the promise is level(t2) - level(t1) <= burst + onLease(t1) for all t1 < t2, so
// it is enough to know the least level + onLease so far. Between two events that
// sum only falls, so it is least just before one. All times Period, in µs.
type flow struct {
	admitted int64
	start    limit.Micros
	floor    int64
}

func (f *flow) level(now limit.Micros, a *account) int64 {
	s := a.rule.Limit.Spec()
	if f.start == 0 {
		f.start = now
	}
	return f.admitted*int64(s.Period) - s.Count*int64(now-f.start)
}

func (f *flow) note(now limit.Micros, a *account) {
	if s := a.rule.Limit.Spec(); s.Algorithm == limit.TokenBucket {
		f.floor = min(f.floor, f.level(now, a)+a.onLease*int64(s.Period))
	}
}

// settleLogs checks every trailing window of every sliding log. It runs when the
// run pauses, since a waiting request counts from when it was charged.
func (ref *referee) settleLogs() {
	for _, a := range ref.list {
		s := a.rule.Limit.Spec()
		if s.Algorithm != limit.SlidingLog || len(a.log) == 0 {
			continue
		}
		sort.SliceStable(a.log, func(i, j int) bool { return a.log[i].at < a.log[j].at })
		var sum int64
		first := 0
		bound := a.most + ref.allowance(a)
		for _, c := range a.log {
			sum += c.units
			for a.log[first].at <= c.at-s.Period {
				sum -= a.log[first].units
				first++
			}
			if sum > bound {
				ref.fail(1, "%v: %d admitted in a trailing window of at most %d", a.key, sum, bound)
			}
		}
	}
}
