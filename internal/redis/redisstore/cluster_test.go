package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/redistest"
)

// TestCluster has the tests that can share a cluster of three masters: they leave it well, and each has keys
// of its own. No node is ever taken for dead, however long it hangs. Those that wait for a node run at once.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, redistest.NodeTimeout(time.Minute))
	for _, test := range []struct {
		name  string
		run   func(*testing.T, *redistest.Cluster)
		waits bool
	}{
		{"CutConnectionChargesOnce", cutInACluster, false},
		{"Resharding", resharding, false},
		{"RedirectThatNeverEnds", redirectThatNeverEnds, false},
		{"CellOfAMovingSlot", cellOfAMovingSlot, false},
		{"GroupGivesBack", groupGivesBack, false},
		{"NodeThatHangs", nodeThatHangs, true},
		{"CallerLeavesInTime", callerLeavesInTime, true},
		{"GroupWithAMemberAway", groupWithAMemberAway, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.waits {
				t.Parallel()
			}
			test.run(t, c)
		})
	}
}

// onCluster runs a store on a cluster, and waits until it has found three masters and all answer.
func onCluster(t *testing.T, c *redistest.Cluster, config Config) *Store {
	t.Helper()
	config.Redis.Addrs = c.Addrs()
	s := start(t, config)
	eventually(t, func() (bool, any) {
		masters, open := metric(s, "masters"), metric(s, "breakers_open")
		return masters == 3 && open == 0, fmt.Sprintf("%d masters, %d open", masters, open)
	})
	return s
}

// linked is [onCluster] with a proxy before each master.
func linked(t *testing.T, c *redistest.Cluster, config Config) (*Store, map[*redistest.Server]*proxy) {
	t.Helper()
	links, byAddr := map[*redistest.Server]*proxy{}, map[string]*proxy{}
	for _, n := range c.Nodes {
		links[n] = newProxy(t, n.Addr)
		byAddr[n.Addr] = links[n]
	}
	config.Redis.Dial = through(byAddr)
	return onCluster(t, c, config), links
}
