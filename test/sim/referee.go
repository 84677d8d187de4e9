package sim

import (
	"fmt"
	"math"
	"sort"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// referee follows every unit from its grant to the request that it admitted, and
// notes the first promise that is broken. Promises have the numbers of the
// guarantees in the README.
type referee struct {
	w    *World
	err  error
	keys map[counterKey]*account
	list []*account // of keys, by age
	lots map[lotID]*stored

	lives         int64 // holders that there were, each life counted
	repeats       bool  // see forgetful
	degradedUnits int64
	remembered    int64        // requests refused from memory while nobody answered
	ahead         limit.Micros // where the granter's clock was before it was set back
	denials       map[asker]*denials
	received      map[received]bool
}

// received is a call as a tier has seen it.
type received struct {
	by     *lease.Caller
	worker int
	seq    uint64
}

// account is what the referee knows of one counter.
type account struct {
	key  counterKey
	rule *Rule
	Totals

	onLease   int64             // granted, neither admitted nor back nor lost
	maxLease  int64             // the most there ever was
	returning map[backing]int64 // given back and on its way
	periods   map[uint32]int64  // admitted by the period that was charged
	overdrawn map[uint32]int64  // admitted without a lease, by the period it was
	losses    int64             // of the counter's state
	extra     int64             // live leases when the rule changed
	most      int64             // the largest limit that held lately
	flow      flow
	log       []charged
	exact     limit.State
	debts     debts
	alone     alone
}

// debts is units that were admitted without a lease, and what became of them.
type debts struct {
	owed    int64 // by holders, as their slots clamp it
	charged int64
	lost    int64 // by holders that forgot them with everything else
}

// Totals are counts of one key over a run.
type Totals struct {
	Offered, Admitted   int64 // units; Admitted by leases and overdrafts
	Exact               int64 // units that one exact limiter would have admitted
	Requests, Waited    int64
	Asks, Denials       int64
	Degraded, Overdrawn int64 // units
}

// backing names what is on its way back: hop and lease.
type backing struct {
	hop   int
	lease uint32
}

// lotID names spare units at a holder.
type lotID struct {
	holder string
	key    counterKey
	lease  uint32
	expiry lease.Millis
}

// stored is spare units at a holder and when they may truly be spent.
type stored struct {
	units       int64
	from, until limit.Micros
}

// charged is units of a sliding log at the time from which they count.
type charged struct {
	at    limit.Micros
	units int64
}

func newReferee(w *World) *referee {
	return &referee{w: w, keys: map[counterKey]*account{}, lots: map[lotID]*stored{}, denials: map[asker]*denials{}, received: map[received]bool{}}
}

// fail notes a broken promise.
func (ref *referee) fail(promise int, format string, args ...any) {
	if ref.err == nil {
		ref.err = fmt.Errorf("seed %d, %.3f ms: promise %d: %s", ref.w.Seed,
			float64(ref.w.Now-epochStart)/float64(limit.Millisecond), promise, fmt.Sprintf(format, args...))
	}
}

func (ref *referee) account(key counterKey) *account {
	a := ref.keys[key]
	if a == nil {
		r := ref.w.rule(key.rule)
		a = &account{key: key, rule: r, returning: map[backing]int64{}, periods: map[uint32]int64{}, overdrawn: map[uint32]int64{}, most: r.Terms.Capacity}
		a.flow.floor = math.MaxInt64
		ref.keys[key] = a
		ref.list = append(ref.list, a)
	}
	return a
}

func (ref *referee) accountOf(p Part) *account {
	return ref.account(counterKey{p.Rule.Name, p.Rule.Limit.Shape(), p.Key})
}

// offered asks the exact limiter the same question.
func (ref *referee) offered(h *holder, parts []Part) {
	for _, p := range parts {
		a := ref.accountOf(p)
		a.Requests++
		a.Offered += p.Cost
		var d limit.Decision
		a.exact, d = p.Rule.Limit.Acquire(a.exact, ref.w.granter.now(), limit.Ask{Need: p.Cost, Waiting: p.Cost, Want: p.Cost})
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
	for _, p := range r.parts {
		ref.w.tracef("  %s/%s cost %d %s", p.Rule.Name, p.Key, p.Cost, verdict)
	}
}

func (ref *referee) failed(r *request, ok bool) {
	ref.w.tracef("  nobody answered: on_failure")
}

// move changes what of a key is out on lease.
func (ref *referee) move(a *account, onLease int64) {
	a.flow.note(ref.w.Now, a)
	a.onLease += onLease
	a.maxLease = max(a.maxLease, a.onLease)
	a.flow.note(ref.w.Now, a)
}

// granted follows a grant of the granter.
func (ref *referee) granted(c call, wt want, g grant) {
	a := ref.account(wt.key)
	if wt.Want.Want > 0 {
		a.Asks++
	}
	if g.Granted > 0 {
		ref.move(a, g.Granted)
	}
	if g.Granted > 0 && (g.Granted < wt.Need || g.Granted > wt.Want.Want) {
		ref.fail(1, "%v: granted %d to a want of %d needing %d", wt.key, g.Granted, wt.Want.Want, wt.Need)
	}
	if g.Granted == 0 && wt.Want.Want > 0 {
		a.Denials++
	}
}

// arrived follows spare units into a holder's slot.
func (ref *referee) arrived(h *holder, e *entry, sent lease.Millis, g grant, spare int64) {
	if spare <= 0 {
		return
	}
	expiry := sent + g.TTL
	ref.within(h.name, e.key, g, h.virtual(expiry))
	id := lotID{h.name, e.key, g.Lease, expiry}
	lot := ref.lots[id]
	if lot == nil {
		lot = &stored{from: g.from, until: g.until}
		ref.lots[id] = lot
	}
	lot.units += spare
}

// within checks that a lease ends before that which it was cut from.
func (ref *referee) within(who string, key counterKey, g grant, end limit.Micros) {
	if g.Granted > 0 && g.TTL > 0 && end > g.until {
		ref.fail(1, "%v at %s: a lease outlives its parent by %d µs", key, who, end-g.until)
	}
}

// took follows units out of a slot, to a request.
func (ref *referee) took(h *holder, e *entry, t lease.Taken) {
	for _, p := range t.Parts {
		if p.Units == 0 {
			continue
		}
		lot := ref.takeLot(h, e, p)
		if lot != nil && (ref.w.Now < lot.from || ref.w.Now > lot.until) {
			ref.fail(1, "%v at %s: units spent outside their lease, which is from %d to %d µs", e.key, h.name, lot.from, lot.until)
		}
	}
}

// left follows units out of a slot, back to where they came from.
func (ref *referee) left(h *holder, e *entry, l uint32, expiry lease.Millis, units int64) {
	ref.takeLot(h, e, lease.Part{Units: units, Lease: l, Expiry: expiry})
}

func (ref *referee) takeLot(h *holder, e *entry, p lease.Part) *stored {
	id := lotID{h.name, e.key, p.Lease, p.Expiry}
	lot := ref.lots[id]
	if lot == nil || lot.units < p.Units {
		ref.fail(1, "%v at %s: %d units taken from a lot that has not so many", e.key, h.name, p.Units)
		return nil
	}
	if lot.units -= p.Units; lot.units == 0 {
		delete(ref.lots, id)
	}
	return lot
}

// putBack follows units of a request that another rule refused.
func (ref *referee) putBack(h *holder, e *entry, t lease.Taken) {
	for _, p := range t.Parts {
		if p.Units == 0 {
			continue
		}
		id := lotID{h.name, e.key, p.Lease, p.Expiry}
		lot := ref.lots[id]
		if lot == nil {
			lot = &stored{until: h.virtual(p.Expiry)}
			ref.lots[id] = lot
		}
		lot.units += p.Units
	}
}

// forgotten follows what a holder loses with a slot.
func (ref *referee) forgotten(h *holder, e *entry) {
	ref.account(e.key).debts.lost += e.slot.Overdrawn
	for _, lot := range e.slot.Lots {
		if lot.Units > 0 && !lot.Local {
			ref.left(h, e, lot.Lease, lot.Expiry, lot.Units)
			ref.vanished(e.key, lot.Units)
		}
	}
}

// vanished notes units that nobody can spend any more and nobody gives back.
func (ref *referee) vanished(key counterKey, units int64) {
	if units != 0 {
		ref.move(ref.account(key), -units)
	}
}

// originals is what a want gives back but for copies.
func (wt *want) originals() int64 {
	units := wt.Unused
	for _, r := range wt.returned {
		if r.copy {
			units -= r.units
		}
	}
	return units
}

// sent, reached and returned follow what is given back.
func (ref *referee) sent(wt want) {
	if units := wt.originals(); units > 0 && !wt.lie {
		ref.account(wt.key).returning[backing{wt.hop, wt.Lease}] += units
	}
}

func (ref *referee) reached(wt want) {
	if wt.Unused == 0 {
		return
	}
	a, id := ref.account(wt.key), backing{wt.hop, wt.Lease}
	a.returning[id] -= wt.Unused
	if missing := -a.returning[id]; missing > 0 {
		if !ref.repeats {
			ref.fail(1, "%v: units given back twice", wt.key)
		}
		a.returning[id] = 0
		ref.vanished(wt.key, -missing) // they were not out
	}
}

// changed is a rule whose limit changes under an account: from now on the larger
// of the two may be admitted, and what is out on lease. A bucket's promise over
// intervals begins anew; the leases that are out are part of it.
func (ref *referee) changed(a *account, new *Rule) {
	if a.rule.Limit.Shape() != new.Limit.Shape() {
		return
	}
	a.most = max(a.most, new.Terms.Capacity)
	if new.Limit.Spec().Algorithm == limit.TokenBucket {
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

func (ref *referee) returned(wt want) {
	ref.reached(wt)
	ref.vanished(wt.key, wt.Unused)
}

func (ref *referee) lostCall(c call) {
	for _, wt := range c.wants {
		if wt.Unused > 0 && !wt.lie {
			ref.reached(wt)
			ref.vanished(wt.key, wt.Unused)
		}
	}
}

func (ref *referee) lostReply(c call, r reply) {
	for i, wt := range c.wants {
		ref.vanished(wt.key, r.grants[i].Granted)
	}
}

// conserved checks that a tier in the middle hands out no more than it had.
func (ref *referee) conserved(r *relay, b *branch, had, handed int64) {
	if now := unitsOf(&b.node.Account); had != now+handed {
		ref.fail(1, "%v at %s: of %d units %d are left and %d were handed on", b.key, r.name, had, now, handed)
	}
}

// admitTaken counts a request that was admitted from a slot.
func (ref *referee) admitTaken(h *holder, e *entry, t lease.Taken) {
	a := ref.account(e.key)
	for _, p := range t.Parts {
		if p.Units > 0 {
			ref.admitted(a, p.Lease, ref.w.Now, p.Units)
		}
	}
	if t.Overdrawn > 0 {
		a.Overdrawn += t.Overdrawn
		a.Admitted += t.Overdrawn
		period := max(ref.w.granter.now(), ref.ahead)
		if s := a.rule.Limit.Spec(); s.Algorithm == limit.FixedWindow || s.Algorithm == limit.SlidingWindow {
			period -= period % s.Period
		}
		a.overdrawn[a.rule.Limit.PeriodID(period)] += t.Overdrawn
		ref.checkPeriod(a, a.rule.Limit.PeriodID(period))
		a.flow.admitted += t.Overdrawn
		ref.checkFlow(a)
	}
}

// admitWaiter counts a request that was admitted by a reply.
func (ref *referee) admitWaiter(h *holder, e *entry, g grant, cost int64) {
	ref.admitted(ref.account(e.key), g.Lease, g.charged, cost)
}

// owes follows what a decision has added to a slot's debt, or taken back.
func (ref *referee) owes(e *entry, before int64) {
	ref.account(e.key).debts.owed += e.slot.Overdrawn - before
}

// charged follows a debt that is charged: what was admitted without a lease is charged
// once. A granter that lost its state may charge it again, to a new counter.
func (ref *referee) charged(wt want) {
	a := ref.account(wt.key)
	a.debts.charged += wt.Overdrawn
	if d := &a.debts; d.charged > d.owed && a.losses == 0 && a.extra == 0 {
		ref.fail(1, "%v: %d were admitted without a lease, and %d charged for it", wt.key, d.owed, d.charged)
	}
}

// accepted follows whether a tier takes a call: of those that it says it has seen it has
// taken one.
func (ref *referee) accepted(known *lease.Caller, c call, ok bool) {
	id := received{known, c.worker, c.seq}
	if !ok && !ref.received[id] {
		ref.fail(11, "%s: call %d of worker %d was refused as repeated", c.from, c.seq, c.worker)
	}
	ref.received[id] = true
}

// believed follows what of a lie a tier has taken for units that came back. What nobody
// can have had it must not believe; what it has handed out to others it may: then so
// much more than the limit may be admitted.
func (ref *referee) believed(wt want, units int64) {
	if units > 0 && wt.Unused > 2*wt.rule.Terms.Capacity {
		ref.fail(11, "%v: %d of %d units came back that were never granted", wt.key, units, wt.Unused)
	}
	ref.account(wt.key).extra += max(units, 0)
}

// settleDebts checks that no debt is forgotten: it is charged, or its holder owes it.
func (ref *referee) settleDebts() {
	for _, a := range ref.list {
		owing := a.debts.lost
		for _, h := range ref.w.holders {
			if e := h.slots[a.key]; e != nil {
				owing += e.slot.Overdrawn
			}
		}
		if d := &a.debts; d.charged+owing < d.owed {
			ref.fail(1, "%v: of %d admitted without a lease %d were charged and %d are owed", a.key, d.owed, d.charged, owing)
		}
	}
}

// degraded counts what was admitted because nobody answered.
func (ref *referee) degraded(h *holder, e *entry, cost int64) {
	ref.account(e.key).Degraded += cost
	ref.degradedUnits += cost
}

func (ref *referee) admitted(a *account, period uint32, at limit.Micros, units int64) {
	a.flow.note(ref.w.Now, a)
	a.Admitted += units
	a.onLease -= units
	a.flow.admitted += units
	if a.onLease < 0 {
		ref.fail(1, "%v: more admitted than was granted", a.key)
	}
	switch a.rule.Limit.Spec().Algorithm {
	case limit.FixedWindow, limit.SlidingWindow:
		a.periods[period] += units
		ref.checkPeriod(a, period)
	case limit.SlidingLog:
		a.log = append(a.log, charged{at, units})
	case limit.TokenBucket:
		ref.checkFlow(a)
	}
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
	s := a.rule.Limit.Spec()
	if s.Algorithm != limit.FixedWindow && s.Algorithm != limit.SlidingWindow {
		return
	}
	if n, bound := a.periods[period]+a.overdrawn[period], a.most+ref.allowance(a); n > bound {
		ref.fail(1, "%v: %d admitted in a window of at most %d", a.key, n, bound)
	}
}

// checkFlow checks a token bucket over all intervals that end now.
func (ref *referee) checkFlow(a *account) {
	s := a.rule.Limit.Spec()
	if s.Algorithm != limit.TokenBucket {
		return
	}
	a.flow.note(ref.w.Now, a)
	bound := (a.most + ref.allowance(a)) * int64(s.Period)
	if over := a.flow.level(ref.w.Now, a) - a.flow.floor - bound; over > 0 {
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
