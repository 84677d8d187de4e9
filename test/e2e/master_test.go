package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/stack"
)

// The limits are never reached: whoever is rejected with 503 was rejected because nobody answered in time.
var steadyRules = rule("exact", "limit: 1000000/1d, consistency: exact, timeout: 200ms, on_failure: deny") +
	rule("leased", "limit: 1000000/1d, timeout: 200ms, on_failure: deny")

// steady offers so many requests per second to each rule, for users in turn, until the end, and counts by rule.
func steady(t *testing.T, addrs, users []string, perSecond float64, until time.Time) map[string]*drive.Result {
	t.Helper()
	rules, tallies := []string{"exact", "leased"}, [2]*drive.Result{}
	proc.Together(len(rules), func(i int) {
		var err error
		tallies[i], err = drive.Run(t.Context(), drive.Load{
			Addrs: addrs, Conns: 16, PerSecond: perSecond, Until: until,
			Request: func(b []byte, n int64) []byte {
				return fmt.Appendf(b, "GET /%s HTTP/1.1\r\nhost: pop\r\nx-user: %s\r\n\r\n", rules[i], users[n%int64(len(users))])
			},
		})
		if err != nil {
			t.Error(err)
		}
	})
	return map[string]*drive.Result{rules[0]: tallies[0], rules[1]: tallies[1]}
}

// One of three masters of Redis hangs: its keys follow on_failure, and of the decisions on all other keys hardly any,
// although keys of all masters travel in the same calls, and Redis has longer than the callers of the region.
func masterHangs(t *testing.T, s *stack.Stack, c *redistest.Cluster) {
	hung := c.Nodes[0]
	var users [2][]string // of the master that hangs, and of others
	for i := range 90 {
		user := fmt.Sprint("user-", i)
		exact, leased := c.MasterOf("weir:{exact:"+user+"}"), c.MasterOf("weir:{leased:"+user+"}")
		switch a, b := exact == hung, leased == hung; {
		case a && b:
			users[0] = append(users[0], user)
		case !a && !b:
			users[1] = append(users[1], user)
		}
	}
	if len(users[0]) == 0 || len(users[1]) == 0 {
		t.Fatalf("%d users of the node that hangs, %d of others", len(users[0]), len(users[1]))
	}
	const perSecond = 200
	warm := time.Now().Add(2 * time.Second)
	proc.Together(2, func(i int) { steady(t, s.Addrs(), users[i], perSecond, warm) })

	thrice(t, func(string) bool { // a busy machine hangs, too
		hung.Pause()
		until := time.Now().Add(orLong(4*time.Second, 30*time.Second))
		var tallies [2]map[string]*drive.Result
		proc.Together(2, func(i int) { tallies[i] = steady(t, s.Addrs(), users[i], perSecond, until) })
		hung.Resume()
		within := true
		for rule, bad := range tallies[0] {
			good := tallies[1][rule]
			t.Logf("%s: of the master that hangs %v, of others %v, slowest %v", rule, bad.Status, good.Status, good.Slowest)
			within = within && good.Other(200) <= good.Sent()/10 // it was 31 % of the exact ones
			if bad.Status[503] == 0 && rule == "exact" {
				t.Errorf("%s: no key of the master that hangs was degraded: it does not hang", rule)
			}
		}
		if m := s.Region.Metrics(); m["weir_acquire_rejected_total"] != 0 || strings.Contains(s.Region.Log(), "panic") {
			t.Errorf("%v calls were rejected as a whole", m["weir_acquire_rejected_total"])
		}
		proc.Eventually(t, time.Minute, "all masters are asked", func() bool { return s.Region.Metrics()["weir_redis_breakers_open"] == 0 })
		return within
	})
}
