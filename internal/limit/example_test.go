package limit_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/limit"
)

// State and time go in, state and decision come out: what to keep is the caller's.
func Example() {
	l, err := limit.New(limit.Spec{Algorithm: limit.TokenBucket, Count: 60, Period: limit.Minute, Burst: 2})
	if err != nil {
		panic(err)
	}
	var state limit.State // a key that was never used: its bucket is full
	now := 1_000_000 * limit.Second
	for range 3 {
		var d limit.Decision
		state, d = l.Acquire(state, now, limit.Ask{Need: 1, Waiting: 1, Want: 1})
		fmt.Println("granted", d.Granted, "left", d.Remaining, "retry after", d.RetryAfter/limit.Millisecond, "ms")
	}
	_, d := l.Acquire(state, now+limit.Second, limit.Ask{Need: 1, Waiting: 1, Want: 1})
	fmt.Println("a second later granted", d.Granted)
	// Output:
	// granted 1 left 1 retry after 0 ms
	// granted 1 left 0 retry after 0 ms
	// granted 0 left 0 retry after 1000 ms
	// a second later granted 1
}
