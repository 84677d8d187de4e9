//go:build linux

package region

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/load/table"
)

// failover repeats the attack on a cluster whose masters have a replica each, and
// kills the one that has the key in its midst.
func (b *bench) failover(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: fmt.Sprintf("The same attack while the key's master is killed and its replica takes over, %d replicas of the service", replicas)}
	c, err := startCluster(b.Rig, 1)
	if err != nil {
		return nil, err
	}
	defer c.close()
	theirs, weir, err := b.replicas(c, "failover")
	if err != nil {
		return nil, err
	}
	defer stop(theirs, weir)
	s.Rows, err = b.compare(floods()[:2], 3*b.plan.attack, theirs, weir, func(name string, f *flood, targets []*service) (table.Row, error) {
		return b.attackAcross(ctx, c, name, *f, targets)
	})
	return []table.Section{s}, err
}

// attackAcross floods for three times as long as attack, and kills the master
// after a third. Afterwards the cluster is as before, though other nodes lead.
func (b *bench) attackAcross(ctx context.Context, c *cluster, name string, f flood, targets []*service) (table.Row, error) {
	d := 3 * b.plan.attack
	key, err := c.busiest(ctx, targets, f)
	if err != nil {
		return table.Row{}, err
	}
	counted := newCounts(c, targets[0].calls)
	type outcome struct {
		sent
		err error
	}
	flooded := make(chan outcome, 1)
	go func() {
		seen, err := f.send(ctx, targets, d)
		flooded <- outcome{seen, err}
	}()
	begin := time.Now()
	var lost *redistest.Server
	for time.Since(begin) < d {
		counted.read()
		if lost == nil && time.Since(begin) > d/3 {
			lost = c.MasterOf(key)
			lost.Kill()
		}
		time.Sleep(50 * time.Millisecond)
	}
	got := <-flooded
	counted.read()
	if lost != nil {
		c.AwaitMaster(redistest.HashSlot(key), lost)
		lost.Restart()
		c.Await()
	}
	if got.err != nil {
		return table.Row{}, got.err
	}
	perSecond := float64(counted.sum) / d.Seconds() / float64(len(targets))
	return table.Row{Name: name, Unit: "calls/s/replica", Value: measure.Sample{perSecond}, Note: got.note()}, nil
}

// busiest is a key of Redis that a flood makes, found by sending a little of it.
func (c *cluster) busiest(ctx context.Context, targets []*service, f flood) (string, error) {
	c.flush()
	if _, err := f.send(ctx, targets, 200*time.Millisecond); err != nil {
		return "", err
	}
	for _, n := range c.Masters() {
		keys, _ := n.Do("KEYS", "*user-*").([]any)
		for _, k := range keys {
			if name, ok := k.(string); ok && strings.Contains(name, "00000000") {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no key of it in Redis", f.name)
}

// counts adds up calls of nodes of which some die: what a node counted last is
// kept.
type counts struct {
	c        *cluster
	commands []string
	last     map[*redistest.Server]int64
	sum      int64
}

func newCounts(c *cluster, commands []string) *counts {
	n := &counts{c: c, commands: commands, last: map[*redistest.Server]int64{}}
	n.read()
	n.sum = 0
	return n
}

// read adds what was counted since the last reading. A replica counts what it
// repeats after its master, and that is not added.
func (n *counts) read() {
	for _, node := range n.c.Nodes {
		if node.Exited() {
			continue
		}
		var calls int64
		for name, stat := range node.CommandStats() {
			for _, wanted := range n.commands {
				if name == wanted {
					calls += stat.Calls
				}
			}
		}
		if node.Info("replication")["role"] == "master" {
			n.sum += max(calls-n.last[node], 0)
		}
		n.last[node] = calls
	}
}
