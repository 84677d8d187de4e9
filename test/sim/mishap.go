package sim

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/world"
)

// RestartGranter makes the region begin anew without its counters: they are those of its
// process, or of the store behind its replicas.
func (w *World) RestartGranter() {
	w.tracef("granter restarts")
	w.ref.forgetful()
	w.counters.reset()
	w.restartTop()
	w.lost()
}

// restartTop makes the tier that has the counters begin anew.
func (w *World) restartTop() {
	w.ends(w.region().Life)
	w.world.Restart()
}

// lost notes that every counter has lost its state.
func (w *World) lost() {
	for _, a := range w.ref.list {
		a.losses++
	}
}

// RestartPoP makes PoP n, counted from 1, begin anew. Nobody waits any more.
func (w *World) RestartPoP(n int) {
	p := w.pops[n-1]
	w.tracef("%s restarts", p.Name)
	w.ref.forgotten(p)
	p.Restart()
}

// cutFor cuts a link for so long: for calls, for answers or for both.
func (w *World) cutFor(l *world.Link, d limit.Micros) {
	way := w.rand.IntN(3)
	l.Cut, l.Deaf = way != 0, way != 1
	w.after(d, func() { l.Cut, l.Deaf = false, false })
}

// StepClock sets the region's clock forward or back. Time that did not pass
// refills buckets and empties logs; a clock that jumps back by more than a
// period finds counters of a time to come. Either costs a counter its memory.
func (w *World) StepClock(by limit.Micros) {
	w.tracef("granter's clock steps by %d ms", by/limit.Millisecond)
	w.ref.ahead = 0
	if by > -limit.Second { // counters stay in their window until the clock has caught up
		w.ref.ahead = w.counters.clock()
	}
	w.world.StepClock(by)
	w.apart()
	for _, a := range w.ref.list {
		if by >= 10*limit.Minute { // for which a store remembers the names of debts
			a.debts.again = a.debts.charged
		}
		if l := a.rule.Limit; by < -l.Spec().Period || by > 0 && !inWindows(l) {
			a.losses++
		}
		if by < 0 && a.rule.Consistency == lease.Optimistic { // its PoPs see an end of the window twice
			a.extra += w.ref.lives * a.rule.Terms.Overdraft
		}
	}
}
