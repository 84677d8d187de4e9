package lease_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/lease/relay"
	"github.com/weirlimit/weir/internal/limit"
)

// The first request of a key waits for a round trip. What was granted beside it is a lease, which the
// granter has charged: it admits the next requests without a word to the granter.
func Example() {
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 6400, Period: limit.Minute})
	if err != nil {
		panic(err)
	}
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0).ForAggregator() // the granter is in another region
	var region relay.Relay
	var granter granter.Counter
	sent := lease.Millis(7_000_000) // each has a clock of its own
	above := 30_000_000 * limit.Minute

	fmt.Println("the first request waits:", region.Holder.Take(&terms, sent, 1).Verdict == holder.Wait)
	queue, grants := []lease.Want{{Need: 1, Waiting: 1, Want: 1}}, make([]lease.Grant, 1)
	want := region.Ask(&terms, sent, queue, holder.NoAsk)
	grant := granter.Acquire(l, &terms, above, want)
	fmt.Println("granted", grant.Granted, "of", grant.Limit, "and left", grant.Remaining)

	now := sent + 50
	region.Apply(&terms, now, sent, want, grant, 100, queue, grants)
	admitted := 0
	for region.Holder.Take(&terms, now, 1).Verdict == holder.Admit {
		admitted++
	}
	fmt.Println("then admitted at once", admitted)
	// Output:
	// the first request waits: true
	// granted 200 of 6400 and left 6200
	// then admitted at once 199
}
