package edge

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// costRules is one rule that takes a request's cost from a header.
func costRules(algorithm, rate string, most int64) string {
	return fmt.Sprintf(`{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":%q,"algorithm":%q,"cost":{"header":"x-cost","max":%d}}]}`, rate, algorithm, most)
}

// A request that costs more than the PoP has on lease is not refused what the limit has:
// the PoP offers its lease with the question.
func TestCostsAboveTheLease(t *testing.T) {
	many := func(n int, cost int64, then ...int64) (costs []int64) {
		for range n {
			costs = append(costs, cost)
		}
		return append(costs, then...)
	}
	for _, c := range []struct {
		limit int64
		costs []int64 // admitted, to the last unit
	}{
		{5, []int64{1, 1, 3}},
		{10, many(5, 2)},
		{1000, many(500, 1, 400, 100)},
		{7, []int64{3, 3, 1}},
	} {
		for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
			for _, workers := range []int{1, 2} {
				for _, cached := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s of %d, then %v, %d workers, cached %v", algorithm, c.limit, c.costs[len(c.costs)-1], workers, cached), func(t *testing.T) {
						w := newWorld(t, workers, costRules(algorithm, fmt.Sprintf("%d/1h", c.limit), c.limit))
						if cached {
							w.region.nodes = map[string]*lease.Relay{}
						}
						for i, cost := range c.costs {
							if w.costly(i%workers, cost).Outcome != Admit {
								t.Fatalf("request %d of %v is refused", i, c.costs)
							}
						}
						if w.costly(0, 1).Outcome == Admit {
							t.Error("one more is admitted")
						}
					})
				}
			}
		}
	}
}

// A PoP that is alone decides as one exact limiter would, whatever requests cost.
func TestCostsAreDecidedExactly(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		for _, count := range []int64{4, 20, 1000} {
			for seed := range uint64(24) {
				t.Run(fmt.Sprintf("%s of %d, seed %d", algorithm, count, seed), func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(seed, uint64(count)))
					w := newWorld(t, 1+int(seed%2), costRules(algorithm, fmt.Sprintf("%d/1h", count), count))
					if seed%3 == 0 {
						w.region.nodes = map[string]*lease.Relay{}
					}
					most := []int64{2, max(1, count/7), count}[seed/2%3]
					decidesExactly(t, w, rnd, most)
				})
			}
		}
	}
}

func decidesExactly(t *testing.T, w *world, rnd *rand.Rand, most int64) {
	l := w.workers[0].rules.inForce.byRule[0][0].limit
	var spent []outlay
	fits := func(cost int64, at limit.Micros) bool {
		var twin limit.State
		for _, s := range spent {
			twin = l.Charge(twin, min(s.at, at), s.units)
		}
		return l.Peek(twin, at, cost).RetryAfter == 0
	}
	lately := limit.Micros(1500 * limit.Millisecond)
	if l.Spec().Algorithm == limit.SlidingLog { // it counts from the end of a lease
		lately += 10 * limit.Second
	}
	for range 200 {
		if rnd.IntN(8) == 0 {
			for end := w.now + []lease.Millis{1, 30, 300, 2000, 12_000, 60_000}[rnd.IntN(6)]; w.now < end; {
				w.pass(min(100, end-w.now))
				w.settle()
			}
		}
		cost := 1 + rnd.Int64N(most)
		switch r := w.costly(rnd.IntN(len(w.workers)), cost); {
		case r.Outcome == Admit:
			spent = append(spent, outlay{w.wall(), cost})
		case fits(cost, w.wall()) && fits(cost, w.wall()-lately):
			t.Fatalf("after %d requests one of %d is refused, an exact limiter has room", len(spent), cost)
		}
	}
}

// outlay is units that were admitted at a time.
type outlay struct {
	at    limit.Micros
	units int64
}

// Who waits for the same answer is served as if each had asked alone: a costly request
// that does not fit refuses no cheap one behind it.
func TestCostlyRequestsRefuseNoCheapOnes(t *testing.T) {
	w := newWorld(t, 1, costRules("fixed_window", "10/1h", 10))
	w.costly(0, 7)
	costs := []int64{5, 2, 4, 1}
	var requests []*Request
	for _, cost := range costs {
		requests = append(requests, w.costing(0, cost))
	}
	w.settle()
	for i, admitted := range []bool{false, true, false, true} {
		if (requests[i].Outcome == Admit) != admitted {
			t.Errorf("with 3 left a request of %d: admitted %v", costs[i], !admitted)
		}
	}
}

// A request of several rules is not refused because the lease on one of them is too small
// for what it costs, and what one of them refuses takes nothing of the others.
func TestCostsOfSeveralRules(t *testing.T) {
	rule := func(name, algorithm, rate string) string {
		return fmt.Sprintf(`{"name":%q,"key":[{"header":"x-user"}],"limit":%q,"algorithm":%q,"cost":{"header":"x-cost","max":9}}`, name, rate, algorithm)
	}
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window"} {
		for _, cached := range []bool{false, true} {
			for seed := range uint64(10) {
				t.Run(fmt.Sprintf("%s, cached %v, seed %d", algorithm, cached, seed), func(t *testing.T) {
					w := newWorld(t, 1, `{"rules":[`+rule("wide", algorithm, "60/1h")+","+rule("narrow", "fixed_window", "23/1h")+`]}`)
					if cached {
						w.region.nodes = map[string]*lease.Relay{}
					}
					rnd := rand.New(rand.NewPCG(seed, 5))
					left := int64(23) // the other has more
					for left > 0 {
						cost := 1 + rnd.Int64N(9)
						if admitted := w.costly(0, cost).Outcome == Admit; admitted != (cost <= left) {
							t.Fatalf("with %d left a request of %d: admitted %v", left, cost, admitted)
						} else if admitted {
							left -= cost
						}
						w.pass(20) // what was taken for a request that was refused is back
						w.settle()
					}
				})
			}
		}
	}
}
