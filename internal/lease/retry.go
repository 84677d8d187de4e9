package lease

import (
	"math"

	"github.com/weirlimit/weir/internal/limit"
)

// Never is [limit.Never] in milliseconds: as a RetryAfter, that no waiting helps.
const Never = Millis(limit.Never / limit.Millisecond)

// Retry is after how long a client should come back whose request of cost units is
// refused at now: when the limit would admit it if nobody else asked. Where that is not
// known it is when the holder may ask next. It is at least 1.
func (s *Account) Retry(t *Terms, now Millis, cost int64) Millis {
	if after := t.retry(cost, s.Overdrawn, s.Reset-now, s.RetryAt-now); after > 0 {
		return after
	}
	return max(1, s.NextAsk-now, s.LimitedUntil-now)
}

// RetryAfter is [Account.Retry] by a reply that has just arrived and gives nothing to a
// request of cost units.
func (t *Terms) RetryAfter(g *Grant, cost int64) Millis {
	if after := t.retry(cost, 0, g.Reset, g.RetryAfter); after > 0 {
		return after
	}
	return max(1, g.AskAfter)
}

// retry is after how long cost units can be had of a counter that is as good as new
// after reset, but for a debt that its granter has not heard of, and of which that told
// a wait, 0: it told none. When a bucket has cost units follows from when it is full. 0:
// nobody knows.
func (t *Terms) retry(cost, debt int64, reset, told Millis) Millis {
	if cost > t.Capacity {
		return Never
	}
	if t.Refills && reset > 0 {
		if after := reset - Millis(math.Floor(float64(t.Capacity-cost-debt)*t.Unit)); after > 0 {
			return after
		}
	}
	switch {
	case told > 0:
		return told
	case t.Window > 0:
		return max(0, reset)
	}
	return 0
}

// learnRetry notes what a reply to a want that asks for something tells of the next
// unit. An empty grant, whose group was denied elsewhere, tells nothing.
func (s *Account) learnRetry(now Millis, g *Grant) {
	switch {
	case g.StartsIn > 0:
	case g.Status == Denied:
		s.RetryAt = now + max(g.RetryAfter, 1)
	case g.Granted > 0 && g.RetryAfter > 0:
		s.RetryAt = now + g.RetryAfter
	case g.Granted > 0:
		s.RetryAt = 0
	}
}
