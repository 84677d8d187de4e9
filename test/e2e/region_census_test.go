package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

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
