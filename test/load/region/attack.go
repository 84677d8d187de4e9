//go:build linux

package region

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

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
	name string
	per  float64 // the limit
	asks []drive.Ask
}

var floods = []flood{
	{"one key under its limit", hotLimit, []drive.Ask{{Domain: domain, Entry: "hot"}}},
	{"one key over its limit", 10, []drive.Ask{{Domain: domain, Entry: "tight"}}},
	{"one key over its limit, mixed costs", 10, []drive.Ask{
		{Domain: domain, Entry: "tight"}, {Domain: domain, Entry: "tight", Hits: 2},
		{Domain: domain, Entry: "tight", Hits: 7}, {Domain: domain, Entry: "tight", Hits: 1000}}},
}

// attacks counts how often Redis is called while clients send all that they can
// on one key.
func (b *bench) attacks(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: fmt.Sprintf("Attack on one key, %d replicas, %d connections each", replicas, conns)}
	theirs, err := b.replicas("theirs", func(process string) (*service, error) {
		return b.ratelimit("envoyproxy/ratelimit", process, cacheSize)
	})
	if err != nil {
		return nil, err
	}
	defer stop(theirs)
	weir, err := b.replicas("weir", b.weir)
	if err != nil {
		return nil, err
	}
	defer stop(weir)
	for i := range floods {
		f := &floods[i]
		peer, err := b.attack(ctx, f, theirs)
		if err != nil {
			return nil, err
		}
		row, err := b.attack(ctx, f, weir)
		if err != nil {
			return nil, err
		}
		row.Peer, row.Target = peer.Value, table.Target{Kind: table.AtMost, Bound: f.bound(b.plan.attack)}
		s.Rows = append(s.Rows, peer, row)
	}
	return []table.Section{s}, nil
}

// bound is the most calls per second and replica: ten, and the slow start of each
// window that a flood lies in.
func (f *flood) bound(d time.Duration) float64 {
	windows := math.Ceil(d.Minutes()) + 1
	return callsPerSecond + windows*math.Ceil(math.Log2(f.per))/d.Seconds()
}

func stop(all []*service) {
	for _, s := range all {
		s.process.Stop()
	}
}

// replicas starts replicas of a service, in processes with this in their names.
func (b *bench) replicas(name string, start func(process string) (*service, error)) ([]*service, error) {
	all := make([]*service, replicas)
	var g errgroup.Group
	for i := range all {
		g.Go(func() (err error) { all[i], err = start(fmt.Sprintf("attack-%s-%d", name, i)); return })
	}
	return all, g.Wait()
}

// attack floods all targets at once and is a row of the calls per second of each.
func (b *bench) attack(ctx context.Context, f *flood, targets []*service) (table.Row, error) {
	before := b.redis.calls(targets[0].calls...)
	results := make([]*drive.Result, len(targets)*len(f.asks))
	var g errgroup.Group
	for i := range results {
		t, ask := targets[i/len(f.asks)], f.asks[i%len(f.asks)]
		g.Go(func() error {
			c, err := drive.DialRLS(t.rls, ask, drive.Hot(), conns/len(f.asks))
			if err != nil {
				return err
			}
			defer c.Close()
			results[i], err = c.Run(ctx, drive.Pace{Duration: b.plan.attack})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return table.Row{}, fmt.Errorf("%s: %w", f.name, err)
	}
	var done, within, over, failed int64
	for _, r := range results {
		done, failed = done+r.Done, failed+r.Failed
		within, over = within+r.Status[admitted], over+r.Status[refused]
	}
	calls, seconds := b.redis.calls(targets[0].calls...)-before, b.plan.attack.Seconds()
	return table.Row{
		Name: targets[0].name + ", " + f.name, Unit: "calls/s/replica", Value: measure.Sample{float64(calls) / seconds / float64(len(targets))},
		Note: fmt.Sprintf("%.0f req/s, %.2f %% admitted, %.2f %% undecided, %d failed", float64(done)/seconds,
			100*float64(within)/float64(done), 100*float64(done-within-over)/float64(done), failed),
	}, nil
}
