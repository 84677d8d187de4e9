//go:build linux

package region

import (
	"context"
	"strconv"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// masters is how many a cluster has.
const masters = 3

// cluster is a Redis Cluster, all on this machine.
type cluster struct {
	*redistest.Cluster
	rig  *rig.Rig
	idle float64 // share of a core that all nodes use with nothing to do
}

// startCluster starts one without replicas.
func startCluster(r *rig.Rig) (c *cluster, err error) {
	defer proc.Recover(&err)
	c = &cluster{Cluster: redistest.StartCluster(r, masters, 0), rig: r}
	for _, n := range c.Nodes {
		r.Count(n.Process)
	}
	return c, nil
}

// cpu is the processor time of all nodes so far.
func (c *cluster) cpu() (sum time.Duration, err error) {
	defer proc.Recover(&err)
	for _, n := range c.Nodes {
		sum += n.CPU()
	}
	return sum, nil
}

// meter is the nodes' processor time without what they use with nothing to do.
func (c *cluster) meter() round.Meter { return round.Meter{Name: "Redis", Read: c.cpu, Idle: c.idle} }

// measureIdle finds out how much that is.
func (c *cluster) measureIdle(ctx context.Context, d time.Duration) error {
	before, err := c.cpu()
	if err != nil {
		return err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	after, err := c.cpu()
	c.idle = float64(after-before) / float64(time.Since(begin))
	return err
}

// idleRow shows what is taken off all that is measured of Redis.
func (c *cluster) idleRow() table.Row {
	return table.Row{Name: "Redis with nothing to do, taken off below", Unit: "% of a core", Value: measure.Sample{100 * c.idle}}
}

// used is the memory of all nodes in bytes, and how many keys they have.
func (c *cluster) used() (bytes, keys int64) {
	for _, n := range c.Nodes {
		used, err := strconv.ParseInt(n.Info("memory")["used_memory"], 10, 64)
		if err != nil {
			c.rig.Fatalf("used_memory of %s: %v", n.Addr, err)
		}
		size, _ := n.Do("DBSIZE").(int64)
		bytes += used
		keys += size
	}
	return bytes, keys
}

func (c *cluster) flush() {
	for _, n := range c.Masters() {
		n.Do("FLUSHALL")
	}
}

// calls is how often clients ran these commands, by what the nodes count.
func (c *cluster) calls(commands ...string) (sum int64) {
	for _, name := range commands {
		sum += c.Commands(name).Calls
	}
	return sum
}
