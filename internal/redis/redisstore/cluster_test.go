package redisstore

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/redistest"
)

// TestCluster has the tests that can share a cluster of three masters: they leave
// it well. No node is ever taken for dead, however long it hangs.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, redistest.NodeTimeout(time.Minute))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *redistest.Cluster)
	}{
		{"CutConnectionChargesOnce", cutInACluster},
		{"Resharding", resharding},
		{"RedirectThatNeverEnds", redirectThatNeverEnds},
		{"CellOfAMovingSlot", cellOfAMovingSlot},
		{"NodeThatHangs", nodeThatHangs},
		{"CallerLeavesInTime", callerLeavesInTime},
		{"GroupsRace", groupsRace},
		{"GroupGivesBack", groupGivesBack},
		{"GroupWithAMemberAway", groupWithAMemberAway},
		{"ReplicasShareALimit", replicasShareALimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, n := range c.Nodes {
				n.Do("FLUSHALL")
			}
			test.run(t, c)
		})
	}
}
