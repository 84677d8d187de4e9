package rls

import (
	"strconv"
	"testing"
)

// Hits of more than one are decided on, and what is left is stated, to the unit, as by a
// counter that is asked for each request: the replica's lease counts.
func TestHitsAreCountedToTheUnit(t *testing.T) {
	for _, c := range []struct {
		key   string
		limit int
		hits  []int
	}{
		{"five", 5, []int{1, 1, 3, 1}},
		{"five", 5, []int{2, 4, 3, 1}},
		{"dozen", 12, []int{2, 2, 2, 2, 2, 2, 1}},
		{"dozen", 12, []int{5, 5, 5, 2, 1}},
		{"hundred", 100, []int{1, 1, 1, 1, 1, 45, 50, 1}},
		{"hundred", 100, []int{30, 30, 41, 30, 11, 10, 1}},
	} {
		trace(t, func() (list steps) {
			left := c.limit
			for _, n := range c.hits {
				want := "OVER: OVER 0"
				if n <= left {
					left -= n
					want = "OK: OK " + strconv.Itoa(left)
				}
				list = append(list, steps{{request(costing(uint64(n), of(c.key, "a"))), want}}...)
			}
			return list
		})
	}
}
