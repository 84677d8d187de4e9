package edge

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease/relay"
)

// costRules is one rule that takes a request's cost from a header.
func costRules(algorithm, rate string, most int64) string {
	return fmt.Sprintf(`{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":%q,"algorithm":%q,"cost":{"header":"x-cost","max":%d}}]}`, rate, algorithm, most)
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
						w.region.nodes = map[string]*relay.Relay{}
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
