package sim

import (
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

const (
	// forgetEvery is how often the referee drops what no check needs any more, so that a
	// run takes as much memory as its open windows and no more.
	forgetEvery = 10 * limit.Second
	// aftermath is longer than anything is on its way: a message and its copies, units of
	// a lease that is over, a request that waits.
	aftermath = 30 * limit.Second
)

// tallies are units by the lease or the period that they belong to.
type tallies map[uint32]tally

type tally struct {
	units int64
	at    limit.Micros // virtual time of the last change
}

func (t tallies) add(l uint32, units int64, now limit.Micros) {
	t[l] = tally{t[l].units + units, now}
}

// forget drops what did not change since then.
func (t tallies) forget(since limit.Micros) {
	maps.DeleteFunc(t, func(_ uint32, one tally) bool { return one.at < since })
}

// seen counts how often names have come, for at least as long as between two calls of
// forget.
type seen[T comparable] struct{ now, before map[T]int }

func newSeen[T comparable]() *seen[T] { return &seen[T]{now: map[T]int{}} }

func (s *seen[T]) count(name T) int { return s.now[name] + s.before[name] }

// add returns how often the name has come by now.
func (s *seen[T]) add(name T) int {
	s.now[name]++
	return s.count(name)
}

func (s *seen[T]) forget() { s.now, s.before = make(map[T]int, len(s.now)), s.now }

// forget drops what is over: from time to time, while the run lasts.
func (w *World) forget() {
	passed := w.now() - epochStart
	if passed%aftermath == 0 {
		for _, t := range w.world.Tiers {
			w.life(t.Life).seen.forget()
		}
	}
	if passed%(20*aftermath) == 0 { // so long a store remembers the names of debts
		w.counters.debts.forget()
	}
	for _, p := range w.pops {
		p.forget()
	}
	for _, t := range w.world.Tiers {
		w.life(t.Life).forget()
	}
	for _, h := range w.regions {
		h.forget()
	}
	w.ref.forget()
	w.after(forgetEvery, w.forget)
}

// forget drops the books in which nothing is open.
func (p *pop) forget() {
	for key, b := range p.books {
		b.spent.forget(p.w.now() - b.remembers())
		b.refusals()
		if b.settled() {
			b.account.books--
			delete(p.books, key)
		}
	}
}

func (b *book) settled() bool {
	return !b.noted && len(b.held)+len(b.refused)+len(b.spent) == 0 && b.owes+b.sealed.Units+b.owed == 0
}

// forget drops what leases of a tier were, once nobody can have units of them. Units that
// it still has then are lost.
func (l *life) forget() {
	w := l.w
	maps.DeleteFunc(l.stamps, func(id leaseID, s stamp) bool {
		over := max(s.until, s.charged) < w.now()-10*aftermath
		if units := l.held[id]; over && units != 0 {
			w.ref.vanished(id.key, units)
			delete(l.held, id)
		}
		return over
	})
}

// remembers is for how long the units of a period or a lease are of interest after they
// have changed last. A PoP looks for units to give back slowly, and a granter takes them back
// for a minute after the lease has ended.
func (a *account) remembers() limit.Micros {
	const late = 4 * aftermath
	if inWindows(a.rule.Limit) {
		return a.rule.Spec.Period + late
	}
	return late
}

// forget drops the periods that are over, and keys that are as good as new.
func (ref *referee) forget() {
	now, clock := ref.w.now(), ref.w.counters.clock()
	ref.list = slices.DeleteFunc(ref.list, func(a *account) bool {
		a.periods.forget(now - a.remembers())
		a.lost.forget(now - a.remembers())
		ref.checkLog(a, &a.log, now-aftermath)
		a.log.forget()
		l, d := a.rule.Limit, &a.debts
		if now-a.touched < 2*aftermath || !l.Fresh(a.exact, clock) ||
			a.books+len(a.returning)+len(a.periods)+len(a.log.entries) > 0 || a.onLease != 0 || d.reported+d.lost < d.owed {
			return false
		}
		ref.pastOf(a.rule).add(&a.Totals)
		delete(ref.keys, a.key)
		return true
	})
}

// pastOf is the totals of the keys of a rule that were forgotten.
func (ref *referee) pastOf(r *Rule) *Totals {
	t := ref.past[r]
	if t == nil {
		t = new(Totals)
		ref.past[r] = t
	}
	return t
}

// add adds the totals of another key.
func (t *Totals) add(o *Totals) {
	t.Offered += o.Offered
	t.Admitted += o.Admitted
	t.Exact += o.Exact
	t.Requests += o.Requests
	t.Waited += o.Waited
	t.Asks += o.Asks
	t.Denials += o.Denials
	t.Degraded += o.Degraded
	t.Overdrawn += o.Overdrawn
	t.Worst = max(t.Worst, o.Worst)
}

// All are the counts of all keys of a rule.
func (w *World) All(r *Rule) Totals {
	sum := *w.ref.pastOf(r)
	for _, a := range w.ref.list {
		if a.rule == r {
			sum.add(&a.Totals)
		}
	}
	return sum
}
