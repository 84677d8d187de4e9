package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/stack"
)

// Of 5 per hour requests that cost 1, 1 and 3 pass, and no more, though what is left is on
// lease by then with the PoP, or with the lease cache of the region.
func TestCostsAboveTheLease(t *testing.T) {
	t.Parallel()
	rules := "rules:\n"
	for _, a := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		rules += fmt.Sprintf("  - { name: %s, match: { path: /%s }, key: [{ header: x-user }], limit: 5/1h, algorithm: %s, cost: { header: x-cost, max: 5 }, timeout: 1s }\n", a, a, a)
	}
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 2, Rules: rules, RegionConfig: "front: \"on\"\n"})
	awaitRules(t, s) // both workers: one that has none admits what it gets
	awaitWindow(time.Hour, time.Minute)
	p := s.PoPs[0]
	for _, a := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		for _, costs := range [][]string{{"1", "1", "3"}, {"2", "3"}, {"1", "1", "1", "2"}} {
			user := fmt.Sprint(costs)
			for i, cost := range costs {
				if r := p.Get("/"+a, "x-user", user, "x-cost", cost); r.Status != 200 {
					t.Errorf("%s: request %d of %v: status %d, %s", a, i, costs, r.Status, r.Header.Get("RateLimit"))
				}
			}
			if r := p.Get("/"+a, "x-user", user, "x-cost", "1"); r.Status != 429 {
				t.Errorf("%s: one more after %v: status %d", a, costs, r.Status)
			}
		}
	}
}
