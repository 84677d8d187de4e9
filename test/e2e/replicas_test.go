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
	redis := redistest.Start(t)
	var replicas []*region.Region
	var addrs []string
	for i := range 3 {
		r := region.New(t, region.Config{Dir: proc.LogDir(t), Name: fmt.Sprint("replica-", i+1), Rules: "rules:\n" + steadyRules + patientRules,
			Flags: []string{"--redis", redis.Addr, "--drain-wait", "6s", "--redis-timeout", "1s"}})
		r.Start()
		replicas, addrs = append(replicas, r), append(addrs, r.Addr)
	}
	s := start(t, stack.Config{PoPs: 1, RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetNative() // is there at once
		b.SetCluster("weir_region", addrs...)
	}})
	t.Run("one hangs", func(t *testing.T) { replicaHangs(t, s, replicas[1]) })
	t.Run("all restart", func(t *testing.T) { replicasRestart(t, s, replicas) })
}

// A request of these rules waits for a busy machine.
const patientRules = `
  - { name: patient, match: { path: /patient }, key: [ { header: x-user } ], limit: 1000000/1d, algorithm: fixed_window,
      consistency: exact, on_failure: deny, timeout: 1s }
`

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
	for range 3 { // a busy machine hangs, too: of three times one has to be as promised
		replica.Pause()
		tallies := steady(t, s.Addrs(), users, perSecond, time.Now().Add(orLong(5*time.Second, time.Minute)))
		within := true
		// 2 % and 0.1 % are what is aimed at; the rest is for machines that are busy. It was
		// 87 % and 54 %.
		for rule, most := range map[string]float64{"exact": 20, "leased": 15} {
			tally := tallies[rule]
			bad := 100 * float64(tally.Other(200)) / float64(tally.Sent())
			t.Logf("%s: %.2f %% of %d decisions degraded, slowest %v: %v", rule, bad, tally.Sent(), tally.Slowest, tally.Status)
			within = within && bad <= most
		}
		proc.Eventually(t, 15*time.Second, "the two replicas that answer are called", func() bool { return called(s) == 2 })
		replica.Resume()
		proc.Eventually(t, 15*time.Second, "the replica is called again", func() bool { return called(s) == 3 })
		if within {
			return
		}
	}
	t.Error("three times more than 20 % of the exact or 15 % of the leased decisions were degraded")
}

// called is how many replicas the first PoP calls.
func called(s *stack.Stack) int64 {
	return s.PoPs[0].Stat("cluster.weir_region.membership_healthy")
}

// All replicas restart, one after the other, under load: each has callers go elsewhere
// before it stops, so that hardly a call fails and nothing is decided without the region.
func replicasRestart(t *testing.T, s *stack.Stack, replicas []*region.Region) {
	for range 3 { // a busy machine misses a health check, too: of three rounds one has to be as promised
		before := s.PoPs[0].Stats("wasmcustom.weir.calls")
		stop := background(t, s, "/patient", 300)
		for _, r := range replicas {
			r.Stop()
			r.Start()
			proc.Eventually(t, 15*time.Second, r.Name+" is called again", func() bool { return called(s) == 3 })
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
		if within {
			return
		}
	}
	t.Error("three times more than 1 % of the decisions were made without the region, or calls failed")
}
