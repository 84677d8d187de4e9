// Package repeat calls a function again and again until a context ends, and limits work that would repeat each time.
package repeat

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// OncePerMinute keeps something, such as a line of a log, from being done more than once a minute. The zero
// value has done nothing yet. It is safe for concurrent use.
type OncePerMinute struct {
	last atomic.Int64 // ns since began; 0: never
}

// began makes times monotonic: a clock that is set back must not keep anything from being done.
var began = time.Now().Add(-time.Nanosecond)

// Now reports whether it is to be done now.
func (s *OncePerMinute) Now() bool {
	now, last := int64(time.Since(began)), s.last.Load()
	return (last == 0 || now-last >= int64(time.Minute)) && s.last.CompareAndSwap(last, now)
}

// Every calls do once in every interval, until ctx ends. The first call comes after an
// interval. A call that takes longer than an interval delays the next one.
func Every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// Until calls done at once and then once in every interval, until it returns true or ctx ends.
func Until(ctx context.Context, interval time.Duration, done func() bool) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sleep waits for d or until ctx ends. It reports whether ctx is still valid.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Jittered varies a duration by ten percent, so that processes do not act at the same time.
func Jittered(d time.Duration) time.Duration {
	return d*9/10 + rand.N(d/5+1)
}
