package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// Retry is after how long the client of a refused request of cost units should come back:
// when the limit would admit it if no other request came. If that is not known it is when
// the holder may ask next. It is at least 1.
func (a *State) Retry(t *lease.Terms, now lease.Millis, cost int64) lease.Millis {
	if after := t.Retry(cost, a.Overdrawn, a.Reset-now, a.RetryAt-now); after > 0 {
		return after
	}
	return max(1, a.Ends-now)
}

// learnRetry notes when there is a next unit, by the reply to a want that asks for
// something. An empty grant in a group that another member denied does not show it.
func (a *State) learnRetry(now lease.Millis, g *lease.Grant) {
	switch {
	case g.StartsIn > 0:
	case g.Status == lease.Denied:
		a.RetryAt = now + max(g.RetryAfter, 1)
	case g.Granted > 0 && g.RetryAfter > 0:
		a.RetryAt = now + g.RetryAfter
	case g.Granted > 0:
		a.RetryAt = 0
	}
}
