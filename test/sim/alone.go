package sim

import "github.com/weirlimit/weir/internal/limit"

// alone compares what the only holder of a counter decides with one exact limiter that has
// admitted the same requests: nothing is rejected that it would admit. It holds where no
// message is lost, no tier restarts and no clock steps. A rejection needs to have seen what
// was charged; so a request counts from when it came.
type alone struct {
	spent []outlay
	twin  limit.State // that has admitted all of spent
}

// outlay is units of a request that came at one time and was admitted at another.
type outlay struct {
	arrived limit.Micros // virtual
	at      limit.Micros // on the region's clock
	units   int64
}

// compare notes what became of a request. A rejection is judged when all are decided that
// came before it.
func (ref *referee) compare(r *request) {
	if !ref.w.Alone || r.failed {
		return
	}
	now, fits := ref.w.counters.clock(), true
	for _, p := range r.parts {
		a := ref.accountOf(p)
		if r.admitted {
			a.alone.spent = append(a.alone.spent, outlay{r.arrived, now, p.Cost})
			a.alone.twin = p.Rule.Limit.Charge(a.alone.twin, now, p.Cost)
		}
		fits = fits && p.Rule.Limit.Peek(a.alone.twin, now, p.Cost).RetryAfter == 0
	}
	if r.admitted || !fits {
		return
	}
	decided, parts := ref.w.now(), r.parts // r may be another request then
	ref.w.after(2*limit.Second, func() {
		for _, p := range parts {
			if !ref.accountOf(p).fits(p, decided, now, ref.w.levels()) {
				return
			}
		}
		ref.fail(2, "%v is rejected at %.3f ms, one exact limiter has room", parts, float64(decided-epochStart)/float64(limit.Millisecond))
	})
}

// fits reports whether a part of a request fits into what was admitted of those that came
// before it was decided, at the granter's time now. What came back to the limit just
// before need not be known yet, nor what trickles back in a few paces be worth an ask of
// each tier.
func (a *account) fits(p Part, decided, now limit.Micros, tiers int) bool {
	l := p.Rule.Limit
	for _, at := range []limit.Micros{now, now - lately(l)} {
		var twin limit.State
		for _, o := range a.alone.spent {
			if o.arrived <= decided {
				twin = l.Charge(twin, min(o.at, at), o.units)
			}
		}
		if l.Peek(twin, at, p.Cost+int64(tiers)*p.Rule.Terms.Ample).RetryAfter > 0 {
			return false
		}
	}
	return true
}

// lately is within what time something may come back to a limit before its holder
// learns of it. A log counts from the end of a lease.
func lately(l *limit.Limit) limit.Micros {
	switch l.Spec().Algorithm {
	case limit.FixedWindow:
		return 100 * limit.Millisecond
	case limit.SlidingLog:
		return 12 * limit.Second
	}
	return 2 * limit.Second
}

// levels is how many tiers hold leases.
func (w *World) levels() int { return 1 + min(w.Relays, 1)*w.Depth }
