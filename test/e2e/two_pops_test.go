package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/stack"
)

// twoPoPsRules are the rules of all scenarios below, of which each has rules of its own.
func twoPoPsRules(quota int) string {
	return "rules:\n" + limitRules() + headerRules + modeRules + steadyRules + faultRules + quotaRule(quota)
}

// Two PoPs, one of each module, one region and a Redis Cluster of three masters. First nothing fails; then rules change, a master of Redis
// hangs, and last the region does.
func TestTwoPoPsOneRegion(t *testing.T) {
	redis := redistest.StartCluster(t, 3, 0)
	s := start(t, stack.Config{Rules: twoPoPsRules(10), Bootstrap: bothModules(func(*envoy.Bootstrap, bool) {}),
		RegionConfig: fmt.Sprintf("redis: %q\nredis_timeout: 1s\n", strings.Join(redis.Addrs(), ","))})
	t.Run("headers for a client", func(t *testing.T) { clientHeaders(t, s) })
	t.Run("a metric for an operator", func(t *testing.T) { operatorSees(t, s) })
	t.Run("a forged X-Forwarded-For gains nothing", func(t *testing.T) { forgedForwardedForGainsNothing(t, s) })
	t.Run("modes", func(t *testing.T) { modes(t, s) })
	t.Run("limits hold exactly", func(t *testing.T) { limitsHoldExactly(t, s) })
	t.Run("rules change", func(t *testing.T) { rulesChangeUnderLoad(t, s) })
	t.Run("a master of Redis hangs", func(t *testing.T) { masterHangs(t, s, redis) })
	t.Run("the region fails", func(t *testing.T) { regionFails(t, s) })
}

// A client is its address, not what it claims in X-Forwarded-For: by claiming a
// new one with every request it gains nothing.
func forgedForwardedForGainsNothing(t *testing.T, s *stack.Stack) {
	for i := range 6 {
		forged, want := fmt.Sprintf("203.0.113.%d", i), map[bool]int{true: 200, false: 429}[i < 3]
		if got := s.PoPs[i%2].Get("/by-address", "X-Forwarded-For", forged).Status; got != want {
			t.Errorf("request %d from one address, forging %s: status %d, want %d", i+1, forged, got, want)
		}
	}
}

// quotaRule is a rule of so many units a day.
func quotaRule(limit int) string {
	return rule("quota", fmt.Sprintf("limit: %d/1d, timeout: 1s, on_failure: { action: deny, status: 429 }", limit))
}

// Rules change under load without a request being lost, and rules that cannot be
// used change nothing: the last good ones stay, and the region reports what is wrong.
func rulesChangeUnderLoad(t *testing.T, s *stack.Stack) {
	spend := func(user string) int64 {
		return offer(t, loadOf(s, "/quota", user, 300)).OK()
	}
	spends(t, 10, func() int64 { return spend("ann") })
	stop := background(t, s, "/quota", 300)
	s.Region.SetRules(twoPoPsRules(30))
	spends(t, 20, func() int64 { return spend("ann") }) // same algorithm and period: the counter goes on
	for _, bad := range []struct{ rules, want string }{
		{"rules: [", "rules.yaml:1"},
		{strings.ReplaceAll("rules:\n"+quotaRule(1), "limit:", "limits:"), "rules[0].limits"},
	} {
		before := len(s.Region.Log())
		s.Region.SetRules(bad.rules)
		proc.Eventually(t, 10*time.Second, fmt.Sprintf("the region reports %q of:\n%s", bad.want, bad.rules), func() bool {
			printed := s.Region.Log()[before:]
			return strings.Contains(printed, "rules.yaml") && strings.Contains(printed, bad.want)
		})
	}
	time.Sleep(time.Second)                             // longer than PoPs take to fetch
	spends(t, 30, func() int64 { return spend("bob") }) // by the last good ones
	s.Region.SetRules(twoPoPsRules(5))
	proc.Eventually(t, 10*time.Second, "5/1d holds", func() bool { return spend(time.Now().String()) == 5 })
	if tally := stop(); tally.Other(200, 429) > 0 {
		t.Errorf("the load that went on meanwhile got %v, %v", tally.Status, tally.FirstError)
	}
}

// A PoP that finds its region through Consul starts while DNS does not answer. That it finds its replicas, and keeps them while
// Consul does not answer, is in script 5-consul-leader-killed of test/regions.
func TestStartWithoutDNS(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	silent := fatal.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t) // nobody reads the questions
	t.Cleanup(func() { _ = silent.Close() })
	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.FindRegion("eu", "8080", silent.LocalAddr().String())
	e.Start()
}
