package holder

import (
	"math"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// RetryAfter is [State.Retry] of a holder that knows only the reply g to w, which has just arrived and grants nothing to a
// request of cost units.
func RetryAfter(t *lease.Terms, w *lease.Want, g *lease.Grant, cost int64) lease.Millis {
	const now = 1
	a := State{Asked: now, Reset: now + g.Reset}
	a.Apply(t, now, now, w.Asks(), *g, 0, 100)
	return a.Retry(t, now, cost)
}

// Retry is after how long the client of a rejected request of cost units should retry: the limit would then admit the request
// if no other request arrived, and all holders on the way would ask. It is at least 1. [lease.Never] means that waiting does
// not help.
func (a *State) Retry(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	var asks lease.Millis
	if a.Phase == PhaseDenied {
		asks = a.Ends - now
	}
	if t.Consistency != lease.Exact { // see Rejects; an ask behind this request may be under way
		tail := 2*t.Interval + t.Timeout
		if !t.Refills {
			tail = min(tail, a.Reset-now)
		}
		asks = max(asks, tail)
	}
	return max(a.wait(t, now, cost), asks, 1)
}

// Known is [State.Retry] if this holder would reject the request, and 0 otherwise. It changes nothing.
func (a *State) Known(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	if as := *a; as.Take(t, now, cost).Verdict != Reject {
		return 0
	}
	return a.Retry(t, now, cost)
}

// Blocked reports whether the granter's last denial was that of a block, which ends at RetryAt whatever a request costs.
func (a *State) Blocked() bool { return a.RetryAt > 0 && a.RetryFor == limit.MaxCount }

// wait is the time until the granter has cost units, together with the units that the holder gives back, by the last reply.
// For a bucket it follows from the time at which the bucket is full. For other limits the granter has stated it for costs up
// to RetryFor. A larger cost waits until Reset, which is never too early.
func (a *State) wait(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	missing := cost - a.Held(t, now)
	switch {
	case missing <= a.Left-a.Overdrawn && (a.Phase != PhaseDenied || missing < a.Least):
		return 0
	case a.Blocked():
		return a.RetryAt - now
	case a.OwnLimit != 0: // whose size and rate are not those of t
	case cost > t.Capacity:
		return lease.Never
	case t.Refills && !t.Reserves && a.Reset > now:
		full := a.Reset - now
		return full - lease.Millis(math.Floor(float64(t.Capacity-missing-a.Overdrawn)*t.Unit))
	}
	never := a.RetryAt >= lease.Never // which says nothing of smaller costs
	if a.RetryAt > 0 && (missing <= a.RetryFor && !never || missing >= a.RetryFor && never) {
		return a.RetryAt - now
	}
	return a.Reset - now
}

// learnRetry takes from a reply when the granter has units again, and for which costs. An empty grant in a group in which
// another want was denied does not say.
func (a *State) learnRetry(now lease.Millis, w *lease.Want, g *lease.Grant) {
	switch {
	case g.StartsIn > 0:
	case g.Status == lease.Denied:
		a.RetryAt, a.RetryFor = now+max(g.RetryAfter, 1), max(w.Need, 1)
	case g.Granted > 0 && g.RetryAfter > 0:
		a.RetryAt, a.RetryFor = now+g.RetryAfter, 1
	case g.Granted > 0:
		a.RetryAt = 0
	}
	if g.Block > 0 && (g.Status == lease.Denied || g.Granted > 0) {
		a.RetryFor = limit.MaxCount
	}
}
