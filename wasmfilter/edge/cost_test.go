package edge

import (
	"fmt"
	"testing"
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
