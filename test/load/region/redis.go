//go:build linux

package region

import (
	"time"

	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/load/rig"
)

type cluster struct {
	*redistest.Cluster
	rig *rig.Rig
}

// startCluster starts one of three masters without replicas.
func startCluster(r *rig.Rig) *cluster {
	return &cluster{redistest.StartCluster(r, 3, 0), r}
}

// used is the processor time of all nodes so far.
func (c *cluster) used() (sum time.Duration) {
	for _, n := range c.Nodes {
		sum += n.CPU()
	}
	return sum
}

// meter is the nodes' processor time without what they use with nothing to do, which it measures.
func (c *cluster) meter() rig.Meter {
	before, begin := c.used(), time.Now()
	c.rig.Wait(time.Second)
	return rig.Meter{Used: c.used, Idle: float64(c.used()-before) / float64(time.Since(begin))}
}

func (c *cluster) flush() {
	for _, n := range c.Masters() {
		n.Do("FLUSHALL")
	}
}

// calls is how often clients ran these commands, by what the nodes count.
func (c *cluster) calls(commands ...string) (sum int64) {
	for _, name := range commands {
		sum += c.Calls(name)
	}
	return sum
}
