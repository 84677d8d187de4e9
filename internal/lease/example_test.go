package lease_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// The first request of a key waits for a round trip. What was granted beside it is a lease, which the
// granter has charged: it admits the next requests without a word to the tier above.
func Example() {
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 6400, Period: limit.Minute})
	if err != nil {
		panic(err)
	}
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0).Afar() // the tier above is in another region
	var holder lease.Account
	var granter lease.Counter
	sent := lease.Millis(7_000_000) // each has a clock of its own
	above := 30_000_000 * limit.Minute

	fmt.Println("the first request waits:", holder.Take(&terms, sent, 1).Verdict == lease.Wait)
	want := holder.Ask(&terms, sent, 1, 1, lease.NoAsk)
	grant := granter.Acquire(l, &terms, above, want)
	fmt.Println("granted", grant.Granted, "of", grant.Limit, "and left", grant.Remaining)

	now := sent + 50
	holder.Apply(&terms, now, sent, want, grant, grant.Granted-want.Waiting, 100)
	admitted := 0
	for holder.Take(&terms, now, 1).Verdict == lease.Admit {
		admitted++
	}
	fmt.Println("then admitted at once", admitted)
	// Output:
	// the first request waits: true
	// granted 200 of 6400 and left 6200
	// then admitted at once 199
}
