//go:build linux

package region

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// harness starts Redis for this program. What would fail a test is a panic with
// unwell, which ends the part that needed Redis and not those that did without.
type harness struct{ redistest.Program }

type unwell string

// Fatalf panics with unwell.
func (*harness) Fatalf(format string, args ...any) { panic(unwell(fmt.Sprintf(format, args...))) }

// Errorf does as Fatalf.
func (h *harness) Errorf(format string, args ...any) { h.Fatalf(format, args...) }

// recoverUnwell makes an error of what the harness could not do.
func recoverUnwell(err *error) {
	switch r := recover().(type) {
	case nil:
	case unwell:
		*err = fmt.Errorf("redis: %s", string(r))
	default:
		panic(r)
	}
}

// masters is how many a cluster has.
const masters = 3

// cluster is a Redis Cluster, all on this machine.
type cluster struct {
	*redistest.Cluster
	harness *harness
	idle    float64 // share of a core that all nodes use with nothing to do
}

// startCluster starts one with so many replicas of each master.
func startCluster(r *rig.Rig, replicas int) (c *cluster, err error) {
	defer recoverUnwell(&err)
	c = &cluster{harness: &harness{redistest.Program{Dir: r.Dir()}}}
	c.Cluster = redistest.StartCluster(c.harness, masters, replicas)
	for _, n := range c.Nodes {
		pid, err := strconv.Atoi(n.Info("server")["process_id"])
		if err != nil {
			return nil, fmt.Errorf("process of %s: %w", n.Addr, err)
		}
		r.Adopt(pid)
	}
	return c, nil
}

func (c *cluster) close() { c.harness.Close() }

// cpu is the processor time of all nodes so far.
func (c *cluster) cpu() (sum time.Duration, err error) {
	defer recoverUnwell(&err)
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

// idleRow says what is taken off all that is measured of Redis.
func (c *cluster) idleRow() table.Row {
	return table.Row{Name: "Redis with nothing to do, taken off below", Unit: "% of a core", Value: measure.Sample{100 * c.idle}}
}

// used is the memory of all nodes in bytes, and how many keys they have.
func (c *cluster) used() (bytes, keys int64) {
	for _, n := range c.Nodes {
		used, err := strconv.ParseInt(n.Info("memory")["used_memory"], 10, 64)
		if err != nil {
			c.harness.Fatalf("used_memory of %s: %v", n.Addr, err)
		}
		size, _ := n.Do("DBSIZE").(int64)
		bytes += used
		keys += size
	}
	return bytes, keys
}

func (c *cluster) flush() {
	for _, n := range c.Nodes {
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
