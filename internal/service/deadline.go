package service

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// A tenth of a caller's time, within these bounds, is kept for the way of the answer. What
// the store has not decided by then is Unavailable, and the caller gets the rest in time:
// one counter that hangs does not make the call hang.
const (
	returnShare = 10
	minReturn   = 2 * time.Millisecond
	maxReturn   = 20 * time.Millisecond
)

// timeToDecide is the store's part of a caller's patience, at least half of it.
func timeToDecide(patience time.Duration) time.Duration {
	kept := min(max(patience/returnShare, minReturn), maxReturn)
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
	return engine.DefaultPatience
}

// returnAbandoned gives back what was granted to a caller that has hung up: nobody will
// read the answer. Slots of holders are stated anew by their next call.
func (s *Service) returnAbandoned(ctx context.Context, x *exchange) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	var back []engine.Ask
	for i := range x.asks {
		a, g := &x.asks[i], &x.grants[i]
		if g.Status == lease.OK && g.Granted > 0 && a.Policy.Limit.Spec().Algorithm != limit.Concurrency {
			back = append(back, a.GiveBack(g))
		}
	}
	if len(back) > 0 {
		s.metrics.abandoned.Inc()
		engine.SendBack(ctx, s.config.Store, back)
	}
}
