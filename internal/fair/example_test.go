package fair_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/fair"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// Two regions share 100 units a second in equal parts (max-min): the one that demands less than its
// part gets what it demands, the other one the rest, although it always asks first.
func Example() {
	l, err := limit.New(limit.Spec{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Second})
	if err != nil {
		panic(err)
	}
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0).Afar()
	const eu, us, equal, half = 0, 1, true, 50
	var shares fair.Shares
	var counter granter.Counter
	var granted [2]int64
	for i := range 200 { // 20 s
		now := 1_000_000*limit.Second + limit.Micros(i)*100*limit.Millisecond
		if i == 100 {
			granted = [2]int64{} // by now the regions are known
		}
		for region, demand := range []int64{eu: 1000, us: 3} {
			w := lease.Want{Need: 1, Waiting: demand, Want: demand}
			shares.Ask(l, &terms, equal, now, uint64(region+1), half, &w)
			g := counter.Acquire(l, &terms, now, w)
			shares.Granted(l, &terms, now, uint64(region+1), &w, &g)
			granted[region] += g.Granted
		}
	}
	fmt.Println("a second: eu", granted[eu]/10, "us", granted[us]/10)
	// Output:
	// a second: eu 70 us 30
}
