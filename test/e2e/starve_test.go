package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/stack"
)

// starveRules are pairs of rules for a path each: one that refuses every request of
// the user greedy, after the first at the latest, and one of 5 per hour for all.
func starveRules() (rules string, paths []string) {
	rules = "rules:\n"
	for kind, limit := range map[string]string{
		"slots":  "limit: 0, algorithm: concurrency",
		"exact":  "limit: 1/1h, algorithm: fixed_window, consistency: exact",
		"leased": "limit: 1/1h, algorithm: fixed_window",
	} {
		refuses := fmt.Sprintf("name: greedy-%s-%%[1]s, match: { path: /%[1]s-%%[1]s, headers: { x-user: greedy } }, key: [ { header: x-user } ], %s", kind, limit)
		shared := fmt.Sprintf("name: all-%s-%%[1]s, match: { path: /%[1]s-%%[1]s }, key: [], limit: 5/1h, algorithm: fixed_window, consistency: exact", kind)
		for order, pair := range map[string][2]string{"first": {refuses, shared}, "last": {shared, refuses}} {
			for _, rule := range pair {
				rules += fmt.Sprintf("  - { "+rule+", timeout: 1s, on_failure: { action: deny, status: 429 } }\n", order)
			}
			paths = append(paths, "/"+kind+"-"+order)
		}
	}
	return rules, paths
}

// While 300 requests per second of one user are refused by one rule, 20 others get
// all that another rule allows, 60 ms from their region: 5, less the one that the
// greedy user may have had.
func TestRefusedRequestsStarveNobody(t *testing.T) {
	rules, paths := starveRules()
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: rules, Links: true})
	awaitRules(t, s)
	s.PoPs[0].Link.Delay(60 * time.Millisecond)
	awaitWindow(time.Hour, time.Minute)
	var pairs sync.WaitGroup
	for _, path := range paths {
		pairs.Go(func() {
			var greedy, honest *drive.Result
			var both sync.WaitGroup
			begin := time.Now()
			both.Go(func() {
				greedy = offer(t, drive.Load{Addrs: s.Addrs(), Conns: 8, Request: drive.Get(path, "x-user", "greedy"), Until: begin.Add(4 * time.Second), PerSecond: 300})
			})
			time.Sleep(500 * time.Millisecond)
			both.Go(func() {
				honest = offer(t, drive.Load{Addrs: s.Addrs(), Conns: 2, Request: drive.GetEach(path, "x-user", "user"), Count: 20, PerSecond: 8})
			})
			both.Wait()
			t.Logf("%s: %d of %d greedy requests and %d of 20 others", path, greedy.OK(), greedy.Sent(), honest.OK())
			if greedy.OK() > 1 || greedy.OK()+honest.OK() != 5 {
				t.Errorf("%s: admitted %d greedy requests and %d others, want 5 in all, at most one of them greedy", path, greedy.OK(), honest.OK())
			}
			if refused := greedy.Status[429]; refused < 500 {
				t.Errorf("%s: only %d requests were refused: that is no flood", path, refused)
			}
		})
	}
	pairs.Wait()
}
