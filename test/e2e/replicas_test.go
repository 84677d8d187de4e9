package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// A PoP whose region is three replicas on one Redis. One of them hangs, and then all restart in turn.
func TestReplicas(t *testing.T) {
	s, replicas := startReplicas(t, 3, region.Config{Rules: "rules:\n" + steadyRules + patientRule,
		Flags: []string{"--redis", redistest.Start(t).Addr, "--drain-wait", "6s", "--redis-timeout", "1s"}},
		1, (*envoy.Bootstrap).SetNative) // which is there at once
	t.Run("one hangs", func(t *testing.T) { replicaHangs(t, s, replicas[1]) })
	t.Run("all restart", func(t *testing.T) { replicasRestart(t, s, replicas) })
}

// startReplicas starts replicas of a region, and PoPs that call all of them.
func startReplicas(t *testing.T, n int, cfg region.Config, pops int, edit func(*envoy.Bootstrap)) (
	s *stack.Stack, replicas []*region.Region) {
	t.Helper()
	var addrs []string
	cfg.Dir = proc.LogDir(t)
	for i := range n {
		cfg.Name = fmt.Sprint("replica-", i+1)
		r := region.New(t, cfg)
		r.Start()
		replicas, addrs = append(replicas, r), append(addrs, r.Addr)
	}
	return start(t, stack.Config{PoPs: pops, RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		edit(b)
		b.SetCluster("weir_region", addrs...)
	}}), replicas
}

// A request of this rule waits for a busy machine.
var patientRule = rule("patient", "limit: 1000000/1d, consistency: exact, timeout: 1s, on_failure: deny")

// One of three replicas hangs for as long as it is observed: Envoy takes it off its
// list, and the filter goes on asking the others.
func replicaHangs(t *testing.T, s *stack.Stack, replica *region.Region) {
	var users []string
	for i := range 60 {
		users = append(users, fmt.Sprint("user-", i))
	}
	const perSecond = 200 // of each rule
	steady(t, s.Addrs(), users, perSecond, time.Now().Add(time.Second))

	defer replica.Resume()
	thrice(t, func(string) bool { // a busy machine hangs, too
		replica.Pause()
		tallies := steady(t, s.Addrs(), users, perSecond, time.Now().Add(orLong(5*time.Second, time.Minute)))
		within := true
		// 2 % and 0.1 % are what is aimed at; the rest is for machines that are busy. It was 87 % and 54 %.
		for rule, most := range map[string]float64{"exact": 20, "leased": 15} {
			tally := tallies[rule]
			bad := 100 * float64(tally.Other(200)) / float64(tally.Sent())
			t.Logf("%s: %.2f %% of %d decisions degraded, slowest %v: %v", rule, bad, tally.Sent(), tally.Slowest, tally.Status)
			within = within && bad <= most
		}
		awaitStat(t, s.PoPs[0], calledReplicas, 2) // those that answer
		replica.Resume()
		awaitStat(t, s.PoPs[0], calledReplicas, 3)
		return within
	})
}

// All replicas restart, one after the other, under load: each has callers go elsewhere
// before it stops, so that hardly a call fails and nothing is decided without the region.
func replicasRestart(t *testing.T, s *stack.Stack, replicas []*region.Region) {
	thrice(t, func(string) bool { // a busy machine misses a health check, too
		before := s.PoPs[0].Stats("wasmcustom.weir.calls")
		stop := background(t, s, "/patient", 300)
		for _, r := range replicas {
			r.Stop()
			r.Start()
			awaitStat(t, s.PoPs[0], calledReplicas, 3)
		}
		tally := stop()
		sent, bad := tally.Sent(), tally.Other(200)
		t.Logf("%d of %d decisions were made without the region", bad, sent)
		within := bad <= sent/100
		// A call of a replica that has ended fails at once: many do. One that is only late is a sign of a busy machine, or,
		// where many are, of a replica that drains and does not answer. One may meet the end of its connection, and is
		// made again elsewhere.
		for reason, many := range s.PoPs[0].Stats("wasmcustom.weir.calls") {
			many -= before[reason]
			late := strings.HasSuffix(reason, ".timeout") && many <= sent/100
			met := strings.HasSuffix(reason, ".error") && many <= 2
			if many > 0 && !late && !met && !strings.HasSuffix(reason, ".answered") {
				t.Logf("%d calls: %s", many, reason)
				within = false
			}
		}
		return within
	})
}
