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

// startReplicas starts a PoP whose region is three replicas on one Redis.
func startReplicas(t *testing.T, rules string, args ...string) ([]*region.Region, *stack.Stack) {
	t.Helper()
	redis := redistest.Start(t)
	var all []*region.Region
	var addrs []string
	for i := range 3 {
		r := region.New(t, region.Config{Dir: proc.LogDir(t), Name: fmt.Sprint("replica-", i+1), Rules: rules, Flags: append([]string{"--redis", redis.Addr}, args...)})
		r.Start()
		all, addrs = append(all, r), append(addrs, r.Addr)
	}
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", addrs...)
	}})
	awaitRules(t, s)
	return all, s
}

// users are so many users.
func users(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("user-", i))
	}
	return all
}

// One of three replicas hangs for as long as it is observed: Envoy takes it off its
// list, and the filter goes on asking the others.
func TestReplicaHangs(t *testing.T) {
	replicas, s := startReplicas(t, steadyRules)
	const perSecond = 200 // of each rule
	steady(t, s.Addrs(), users(60), perSecond, time.Now().Add(2*time.Second))

	replicas[1].Pause()
	defer replicas[1].Resume()
	length := 8 * time.Second
	if long {
		length = time.Minute
	}
	tallies := steady(t, s.Addrs(), users(60), perSecond, time.Now().Add(length))
	// 2 % and 0.1 % are what is aimed at; the rest is for machines that are busy. It was
	// 87 % and 54 %.
	for rule, most := range map[string]float64{"exact": 20, "leased": 15} {
		tally := tallies[rule]
		bad := 100 * float64(tally.Other(200)) / float64(tally.Sent())
		t.Logf("%s: %.2f %% of %d decisions degraded, slowest %v", rule, bad, tally.Sent(), tally.Slowest)
		if bad > most {
			t.Errorf("%s: %.2f %% degraded, want at most %v %%: %v", rule, bad, most, tally.Status)
		}
	}
	if n := called(s); n != 2 {
		t.Errorf("%d replicas are called, want the 2 that answer", n)
	}
	replicas[1].Resume()
	proc.Eventually(t, 15*time.Second, "the replica is called again", func() bool { return called(s) == 3 })
}

// called is how many replicas the first PoP calls.
func called(s *stack.Stack) int64 {
	const stat = "cluster.weir_region.membership_healthy"
	return s.PoPs[0].Stats(stat)[stat]
}

// All replicas restart, one after the other, under load: each has callers go elsewhere
// before it stops, so that hardly a call fails and nothing is decided without the region.
func TestReplicasRestartUnderLoad(t *testing.T) {
	t.Parallel()
	patient := strings.ReplaceAll(steadyRules, "200ms", "1s") // a busy machine is no failed call
	replicas, s := startReplicas(t, patient, "--drain-wait", "4s", "--redis-timeout", "1s")
	const perSecond = 150 // of each rule
	over, counted := make(chan struct{}), make(chan [2]int64)
	go func() {
		var sent, bad int64
		for running := true; running; {
			select {
			case <-over:
				running = false
			default:
			}
			for _, tally := range steady(t, s.Addrs(), users(60), perSecond, time.Now().Add(time.Second)) {
				sent, bad = sent+tally.Sent(), bad+tally.Other(200)
			}
		}
		counted <- [2]int64{sent, bad}
	}()
	for _, r := range replicas {
		r.Stop()
		r.Start()
		proc.Eventually(t, 15*time.Second, r.Name+" is called again", func() bool { return called(s) == 3 })
	}
	close(over)
	n := <-counted
	sent, bad := n[0], n[1]
	calls := s.PoPs[0].Stats("wasmcustom.weir.calls")
	t.Logf("%d of %d decisions degraded; calls %v", bad, sent, calls)
	// A call of a replica that has ended fails at once: many do. One that is only late is a sign of a busy machine, or,
	// where many are, of a replica that drains and does not answer. One may meet the end of its connection, and is
	// made again elsewhere.
	if bad > sent/100 {
		t.Errorf("%d of %d decisions were made without the region", bad, sent)
	}
	for reason, many := range calls {
		late := strings.HasSuffix(reason, ".timeout") && many <= sent/100
		met := strings.HasSuffix(reason, ".error") && many <= 2
		if many > 0 && !late && !met && !strings.HasSuffix(reason, ".answered") {
			t.Errorf("%d calls: %s", many, reason)
		}
	}
}
