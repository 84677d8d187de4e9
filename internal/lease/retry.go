package lease

import (
	"math"

	"github.com/weirlimit/weir/internal/limit"
)

// Never is [limit.Never] in milliseconds: as a RetryAfter it means that waiting does not help.
const Never = Millis(limit.Never / limit.Millisecond)

// Retry is after how long the client of a refused request of cost units should come back:
// when the limit would admit it if no other request came. If that is not known it is when
// the holder may ask next. It is at least 1.
func (a *Account) Retry(t *Terms, now Millis, cost int64) Millis {
	if after := t.retry(cost, a.Overdrawn, a.Reset-now, a.RetryAt-now); after > 0 {
		return after
	}
	return max(1, a.NextAsk-now, a.LimitedUntil-now)
}

// RetryAfter is [Account.Retry] by a reply that has just arrived and grants nothing to a
// request of cost units.
func (t *Terms) RetryAfter(g *Grant, cost int64) Millis {
	if after := t.retry(cost, 0, g.Reset, g.RetryAfter); after > 0 {
		return after
	}
	return max(1, g.AskAfter)
}

// retry is after how long a counter has cost units that is as good as new after reset; 0:
// not known. debt is what was not reported to the granter yet, and stated the wait that
// the granter stated, 0: none. When a bucket has cost units follows from when it is full.
func (t *Terms) retry(cost, debt int64, reset, stated Millis) Millis {
	if cost > t.Capacity {
		return Never
	}
	if t.Refills && reset > 0 {
		if after := reset - Millis(math.Floor(float64(t.Capacity-cost-debt)*t.Unit)); after > 0 {
			return after
		}
	}
	switch {
	case stated > 0:
		return stated
	case t.Window > 0:
		return max(0, reset)
	}
	return 0
}

// learnRetry notes when there is a next unit, by the reply to a want that asks for
// something. An empty grant in a group that another member denied does not show it.
func (a *Account) learnRetry(now Millis, g *Grant) {
	switch {
	case g.StartsIn > 0:
	case g.Status == Denied:
		a.RetryAt = now + max(g.RetryAfter, 1)
	case g.Granted > 0 && g.RetryAfter > 0:
		a.RetryAt = now + g.RetryAfter
	case g.Granted > 0:
		a.RetryAt = 0
	}
}
