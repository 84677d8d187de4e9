package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Six PoPs keep to one of two replicas each, and a seventh calls both in turns: the shares
// by which they enforce a limit while nobody answers are of what the region has, not of
// what one replica has seen.
func TestSharesAreTheRegions(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t)
	one, two := newReplica(t, "replica-1", sharedRules, []string{c.Addr}), newReplica(t, "replica-2", sharedRules, []string{c.Addr})
	one.Start()
	two.Start()
	var pops []*holder
	for range 3 {
		pops = append(pops, one.newHolder(), two.newHolder())
	}
	both := one.newHolder()
	twin := two.newHolder()
	twin.id, twin.seq = both.id, 1000
	pops = append(pops, both)
	var shares int64
	proc.Eventually(t, 20*time.Second, "both replicas count seven PoPs", func() bool {
		shares = 0
		ok := twin.sharers(t) == 7
		for _, p := range pops {
			n := p.sharers(t)
			ok = ok && n == 7
			shares += lease.FailureLocal.Among(n, 1, limit.Spec{Count: sharedLimit}, 0, 0).Share
		}
		return ok
	})
	if shares < sharedLimit || shares > sharedLimit+7 {
		t.Errorf("the shares of 7 PoPs sum to %d of %d", shares, sharedLimit)
	}
}

// sharers is among how many a limit is shared, as the replica answers.
func (h *holder) sharers(t *testing.T) int {
	t.Helper()
	h.seq++
	r, err := h.client.Acquire(t.Context(), connect.NewRequest(&quotapb.AcquireRequest{Protocol: 1, Holder: h.id, Seq: h.seq}))
	if err != nil {
		t.Fatal(err)
	}
	return int(r.Msg.GetHolders())
}

// Two regions in memory behind one cluster of Envoy notice each other by what the filter
// presents, and refuse readiness.
func TestTwoRegionsInMemory(t *testing.T) {
	t.Parallel()
	regions := []*replica{newReplica(t, "region-1", restartRules, nil), newReplica(t, "region-2", restartRules, nil)}
	var addrs []string
	for _, r := range regions {
		r.Start()
		addrs = append(addrs, r.Addr)
	}
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: addrs[0], Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", addrs...)
	}})
	awaitRules(t, s)
	noticed := func() bool {
		for _, r := range regions {
			if status, text := r.Ready(); status != http.StatusServiceUnavailable || !strings.Contains(text, "--redis") {
				return false
			}
		}
		return true
	}
	proc.Eventually(t, 30*time.Second, "both regions refuse readiness", func() bool {
		_ = try(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/healed", "x-user", "ann"), Count: 50, PerSecond: 100})
		return noticed()
	})
}
