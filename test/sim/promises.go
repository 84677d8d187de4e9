package sim

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// settle checks what shows when a run pauses: the whole of all books, logs and debts.
func (ref *referee) settle() {
	for _, a := range ref.list {
		ref.checkLog(a)
		ref.settleDebts(a)
	}
}

// settleDebts checks that no debt is forgotten: it is charged, or its holder owes it.
func (ref *referee) settleDebts(a *account) {
	owing := a.debts.lost
	for _, p := range ref.w.pops {
		if b := p.books[a.key]; b != nil {
			b.audit()
			owing += b.owes
		}
	}
	if d := &a.debts; d.reported+owing < d.owed {
		ref.fail(1, "%v: of %d admitted without a lease %d were reported and %d are owed", a.key, d.owed, d.reported, owing)
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
	if !inWindows(a.rule.Limit) {
		return
	}
	n, bound := a.periods[period], a.most+ref.allowance(a)+a.lost[period]
	if a.Worst = max(a.Worst, n); n > bound {
		ref.fail(1, "%v: %d admitted in a window of at most %d", a.key, n, bound)
	}
}

// checkFlow checks a token bucket over all intervals that end now. With
//
//	level(t) = admitted until t - rate*t
//
// the promise is level(t2) - level(t1) <= burst + onLease(t1) for all t1 < t2, so it is
// enough to keep the least level + onLease so far, the floor. Between two events that sum
// only falls, so it is least just before one. All times Period, in µs.
func (ref *referee) checkFlow(a *account) {
	s := a.rule.Limit.Spec()
	if s.Algorithm != limit.TokenBucket {
		return
	}
	level := (a.Admitted-a.trickled)*int64(s.Period) - s.Count*int64(ref.w.now())
	a.floor = min(a.floor, level+a.onLease*int64(s.Period))
	bound := (a.most + ref.allowance(a) + ref.apart(a)) * int64(s.Period)
	if over := level - a.floor - bound; over > 0 {
		ref.fail(1, "%v: %.3f units more than burst, refill and leases since some earlier time", a.key, float64(over)/float64(s.Period))
	}
}

// charged is units of a sliding log at the time from which they count.
type charged struct {
	at    limit.Micros
	units int64
}

// checkLog checks every trailing window of a sliding log.
func (ref *referee) checkLog(a *account) {
	bound, period := a.most+ref.allowance(a)+ref.apart(a), a.rule.Spec.Period
	slices.SortStableFunc(a.log, func(x, y charged) int { return cmp.Compare(x.at, y.at) })
	first, sum := 0, int64(0)
	for _, c := range a.log {
		for sum += c.units; a.log[first].at <= c.at-period; first++ {
			sum -= a.log[first].units
		}
		if sum > bound {
			ref.fail(1, "%v: %d admitted in a trailing window of at most %d", a.key, sum, bound)
		}
	}
}

// denied counts an ask of a PoP that was rejected, and checks promise 5: at most ten a
// second, averaged over 10 s, log2 of the limit in each window, and one per worker: when a key is denied, each
// may have an ask for it under way.
func (ref *referee) denied(b *book) {
	b.rejected = append(b.rejected, ref.w.now())
	for b.rejected[0] <= ref.w.now()-10*limit.Second {
		b.rejected = b.rejected[1:]
	}
	windows := int(10*limit.Second/max(b.rule.Spec.Period, 1)) + 1
	if most := 100 + ref.w.Workers + windows*bits.Len64(uint64(b.rule.Terms.Capacity)); len(b.rejected) > most {
		ref.fail(5, "%v at %s: %d asks were rejected within 10 s, at most %d may be", b.key, b.p.Name, len(b.rejected), most)
	}
}

// checkMemory checks promise 8.
func (ref *referee) checkMemory(who string, entries, most int) {
	if entries > most {
		ref.fail(8, "%s keeps %d keys or bytes, at most %d may be", who, entries, most)
	}
}
