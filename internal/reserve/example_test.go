package reserve_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// A region renounces its reserve with every call. Once it is cut off it renounces no more, and may
// use its share in the windows that begin later: there the aggregator withholds it from the others.
func Example() {
	window := reserve.WindowOf(limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: 10 * limit.Second})
	const half reserve.PerMille = 500
	record := reserve.Record{ID: 7}
	var shares reserve.Shares

	cut := 1_000_000 * limit.Second
	for now := cut - 10*limit.Second; now <= cut; now += reserve.Beat { // calls and their replies
		shares, _, _ = shares.Heard("eu", record.Statement(), now, half)
		shares, _ = shares.Issued("eu", half, now)
		record = record.Replied(shares.Reply("eu", record.ID, now)).Renounced(now, now, now, []reserve.Window{window})
	}
	for _, now := range []limit.Micros{cut, cut + 10*limit.Second} {
		begin := window.Begin(now)
		_, permission := record.Permitted(now)
		part, ok := permission.For(window, begin)
		fmt.Println("may use", part.Of(100), ok, "- withheld", shares.Withheld(window, begin).Of(100))
	}
	// Output:
	// may use 0 false - withheld 0
	// may use 50 true - withheld 50
}
