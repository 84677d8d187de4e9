// Package repeat calls a function again and again until a context ends.
package repeat

import (
	"context"
	"time"
)

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
