package holder

import (
	"math"

	"github.com/weirlimit/weir/internal/lease"
)

// RetryAfter is [State.Retry] of a holder that knows no more than the reply g to w, which has just arrived and grants
// nothing to a request of cost units.
func RetryAfter(t *lease.Terms, w *lease.Want, g *lease.Grant, cost int64) lease.Millis {
	const now = 1
	a := State{Asked: now, Reset: now + g.Reset}
	a.Apply(t, now, now, w.Asks(), *g, 0, 100)
	return a.Retry(t, now, cost)
}

// Retry is after how long the client of a refused request of cost units should come back: when the limit would admit
// it if no other request came, and this holder and those above it would ask. It is at least 1; [lease.Never]: waiting
// does not help.
func (a *State) Retry(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	var asks lease.Millis
	if a.Phase == PhaseDenied {
		asks = a.Ends - now
	}
	if t.Consistency != lease.Exact { // see Refuses; an ask behind this request may be under way
		tail := 2*t.Interval + t.Timeout
		if !t.Refills {
			tail = min(tail, a.Reset-now)
		}
		asks = max(asks, tail)
	}
	return max(a.wait(t, now, cost), asks, 1)
}

// Known is [State.Retry] of a request that this holder would refuse; 0: it would not. It changes nothing.
func (a *State) Known(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	if as := *a; as.Take(t, now, cost).Verdict != Refuse {
		return 0
	}
	return a.Retry(t, now, cost)
}

// wait is the time until the counter above has cost units, together with the units that the holder gives back, by its
// last reply. Of a bucket it follows from when the bucket is full. Of another limit the granter has stated it for costs up
// to RetryFor. A larger cost has to wait until Reset, which is never too early.
func (a *State) wait(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	missing := cost - a.Held(t, now)
	switch {
	case missing <= a.Left-a.Overdrawn && (a.Phase != PhaseDenied || missing < a.Least):
		return 0
	case a.OwnLimit != 0: // whose size and rate are not those of t
	case cost > t.Capacity:
		return lease.Never
	case t.Refills && a.Reset > now:
		full := a.Reset - now
		return full - lease.Millis(math.Floor(float64(t.Capacity-missing-a.Overdrawn)*t.Unit))
	}
	never := a.RetryAt >= lease.Never // which says nothing of smaller costs
	if a.RetryAt > 0 && (missing <= a.RetryFor && !never || missing >= a.RetryFor && never) {
		return a.RetryAt - now
	}
	return a.Reset - now
}

// learnRetry notes when there are units again, and for which costs, by the reply to a want that asks for
// something. An empty grant in a group that another member denied does not show it.
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
}
