package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// What of a caller's time is kept for the way of the answer: a tenth of it, within
// these. What the store has not decided by then is Unavailable, and the caller hears
// in time of what it has: one counter that hangs is not a call that hangs.
const (
	returnShare = 10
	leastReturn = 2 * time.Millisecond
	mostReturn  = 20 * time.Millisecond
	// defaultPatience is that of a caller that does not tell.
	defaultPatience = time.Second
)

// timeToDecide is what the store has of a caller's patience, at least half of it.
func timeToDecide(patience time.Duration) time.Duration {
	kept := min(max(patience/returnShare, leastReturn), mostReturn)
	return patience - min(kept, patience/2)
}

// inTime gives the store its time to decide, from now.
func inTime(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, timeToDecide(patience))
}

// patience is how long a caller still waits whose deadline is in ctx.
func patience(ctx context.Context) time.Duration {
	if ends, ok := ctx.Deadline(); ok {
		return max(time.Until(ends), 0)
	}
	return defaultPatience
}

// returnUnheard gives back what was granted to a caller that has hung up meanwhile:
// nobody will read the answer. Slots of holders are stated anew by their next call.
func (s *Service) returnUnheard(ctx context.Context, c *call) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	var back []Ask
	for i := range c.asks {
		a, g := &c.asks[i], &c.grants[i]
		if g.Status == lease.OK && g.Granted > 0 && a.Policy.Limit.Spec().Algorithm != limit.Concurrency {
			back = append(back, giveBack(a, g))
		}
	}
	if len(back) == 0 {
		return
	}
	s.metrics.unheard.Inc()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	s.store.Acquire(ctx, back, make([]lease.Grant, len(back)))
}
