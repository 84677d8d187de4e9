//go:build linux

package region

import (
	"fmt"
	"math"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// replicas of the service that are attacked at once.
const replicas = 2

// most calls per second of one key that a replica may make, beside one per
// doubling of the limit.
const callsPerSecond = 10

// flood is all that the clients can send on one key to replicas of a service.
type flood struct {
	name  string
	per   float64 // the limit
	entry string  // of the descriptor
}

var floods = []flood{{"one key under its limit", hotLimit, "hot"}, {"one key over its limit", 10, "tight"}}

// attacks counts how often Redis is called while clients send all that they can
// on one key.
func (b *bench) attacks() []table.Section {
	s := table.Section{Title: fmt.Sprintf("Attack on one key, %d replicas, %d connections each", replicas, conns)}
	theirs := b.replicas("theirs", func(process string) *service { return b.ratelimit("envoyproxy/ratelimit", process, cacheSize) })
	weir := b.replicas("weir", b.weir)
	for _, f := range floods {
		peer, row := b.attack(f, theirs), b.attack(f, weir)
		row.Peer, row.Target = peer.Value, table.Target{Kind: table.AtMost, Bound: f.bound(b.flood)}
		s.Rows = append(s.Rows, peer, row)
	}
	return []table.Section{s}
}

// bound is the most calls per second and replica: ten, and the slow start of each
// window that a flood lies in.
func (f flood) bound(d time.Duration) float64 {
	windows := math.Ceil(d.Minutes()) + 1
	return callsPerSecond + windows*math.Ceil(math.Log2(f.per))/d.Seconds()
}

// replicas starts replicas of a service, in processes with this in their names.
func (b *bench) replicas(name string, start func(process string) *service) []*service {
	all := make([]*service, replicas)
	b.Together(len(all), func(i int) { all[i] = start(fmt.Sprintf("attack-%s-%d", name, i)) })
	return all
}

// attack floods all targets at once and is a row of the calls per second of each.
func (b *bench) attack(f flood, targets []*service) table.Row {
	before := b.redis.calls(targets[0].calls...)
	results := make([]*drive.Result, len(targets))
	b.Together(len(targets), func(i int) {
		c, err := drive.DialRLS(targets[i].addr, domain, f.entry, drive.Hot(), conns)
		b.Must(err)
		defer c.Close()
		results[i], err = c.Run(b.Ctx, drive.Pace{Duration: b.flood})
		b.Must(err)
	})
	calls, seconds := b.redis.calls(targets[0].calls...)-before, b.flood.Seconds()
	var done, within, over, failed int64
	for _, r := range results {
		done, failed = done+r.Done, failed+r.Failed
		within, over = within+r.Status[admitted], over+r.Status[rejected]
	}
	return table.Row{
		Name: targets[0].name + ", " + f.name, Unit: "calls/s/replica", Value: measure.Sample{float64(calls) / seconds / float64(len(targets))},
		Note: fmt.Sprintf("%.0f req/s, %.2f %% admitted, %.2f %% undecided, %d failed", float64(done)/seconds,
			100*float64(within)/float64(done), 100*float64(done-within-over)/float64(done), failed),
	}
}
