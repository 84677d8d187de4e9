//go:build linux

package region

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/loadgen"
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
	asks []loadgen.Ask
}

func floods() []flood {
	return []flood{
		{"one key under its limit", hotLimit, []loadgen.Ask{{Domain: domain, Entry: "hot"}}},
		{"one key over its limit", 10, []loadgen.Ask{{Domain: domain, Entry: "tight"}}},
		{"one key over its limit, mixed costs", 10, []loadgen.Ask{
			{Domain: domain, Entry: "tight"}, {Domain: domain, Entry: "tight", Hits: 2},
			{Domain: domain, Entry: "tight", Hits: 7}, {Domain: domain, Entry: "tight", Hits: 1000}}},
	}
}

// attacks counts how often Redis is called while clients send all that they can
// on one key.
func (b *bench) attacks(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: fmt.Sprintf("Attack on one key, %d replicas, %d connections each", replicas, conns)}
	theirs, weir, err := b.replicas(ctx, b.redis, "attack")
	if err != nil {
		return nil, err
	}
	defer stop(theirs, weir)
	for _, f := range floods() {
		peer, err := b.attack(ctx, "envoyproxy/ratelimit, "+f.name, f, theirs)
		if err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, peer)
		if b.PeersOnly {
			continue
		}
		row, err := b.attack(ctx, "Weir, "+f.name, f, weir)
		if err != nil {
			return nil, err
		}
		row.Peer = peer.Value
		row.Target = table.Target{Kind: table.AtMost, Bound: f.bound(b.plan.attack)}
		s.Rows = append(s.Rows, row)
	}
	if b.PeersOnly {
		return []table.Section{s}, nil
	}
	for _, f := range popFloods {
		row, err := f.attack(ctx, b, weir)
		if err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, row)
	}
	return []table.Section{s}, nil
}

// bound is the most calls per second and replica: ten, and the slow start of each
// window that a flood lies in.
func (f *flood) bound(d time.Duration) float64 {
	windows := math.Ceil(d.Minutes()) + 1
	return callsPerSecond + windows*math.Ceil(math.Log2(f.per))/d.Seconds()
}

// target is a replica of a service.
type target struct {
	rls     string
	quota   string // address of the QuotaService; empty: it has none
	process *proc.Process
	calls   []string // the commands that it sends to Redis
}

func stop(lists ...[]target) {
	for _, list := range lists {
		for _, t := range list {
			t.process.Stop()
		}
	}
}

// replicas starts replicas of both services on c.
func (b *bench) replicas(ctx context.Context, c *cluster, name string) (theirs, weir []target, err error) {
	theirs, weir = make([]target, replicas), make([]target, replicas)
	var g errgroup.Group
	for i := range replicas {
		g.Go(func() error {
			s, err := b.peers.RateLimit(fmt.Sprintf("%s-theirs-%d", name, i), c.Addrs(), limits, cacheSize)
			if err == nil {
				theirs[i] = target{s.RLS, "", s.Process, theirCalls}
			}
			return err
		})
		if b.PeersOnly {
			continue
		}
		g.Go(func() error {
			r, err := b.Replica(fmt.Sprintf("%s-weir-%d", name, i), c.Addrs(), nativeRules, limits)
			if err == nil {
				weir[i] = target{r.RLS, r.Addr, r.Process, weirCalls}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	if b.PeersOnly {
		weir = nil
	}
	return theirs, weir, nil
}

// attack floods all targets and is a row of the calls per second of each.
func (b *bench) attack(ctx context.Context, name string, f flood, targets []target) (table.Row, error) {
	before := b.redis.calls(targets[0].calls...)
	seen, err := f.send(ctx, targets, b.plan.attack)
	if err != nil {
		return table.Row{}, err
	}
	calls := b.redis.calls(targets[0].calls...) - before
	perSecond := float64(calls) / b.plan.attack.Seconds() / float64(len(targets))
	return table.Row{Name: name, Unit: "calls/s/replica", Value: measure.Sample{perSecond}, Note: seen.note()}, nil
}

// sent is what became of a flood.
type sent struct {
	elapsed                                    time.Duration
	done, admitted, refused, undecided, failed uint64
}

func (s *sent) note() string {
	return fmt.Sprintf("%.0f req/s, %.2f %% admitted, %.2f %% undecided, %d failed", float64(s.done)/s.elapsed.Seconds(),
		100*float64(s.admitted)/float64(s.done), 100*float64(s.undecided)/float64(s.done), s.failed)
}

// send sends the flood to all targets at once.
func (f *flood) send(ctx context.Context, targets []target, d time.Duration) (sent, error) {
	results := make([]*loadgen.Result, len(targets)*len(f.asks))
	var g errgroup.Group
	for i := range results {
		t, ask := targets[i/len(f.asks)], f.asks[i%len(f.asks)]
		g.Go(func() error {
			c, err := loadgen.DialRLS(t.rls, ask, conns/len(f.asks))
			if err != nil {
				return err
			}
			defer c.Close()
			results[i], err = c.Run(ctx, loadgen.Load{Keys: loadgen.Hot(), Duration: d})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return sent{}, fmt.Errorf("%s: %w", f.name, err)
	}
	all := sent{elapsed: d}
	for _, r := range results {
		all.done += r.Done
		all.failed += r.Failed
		all.admitted += r.Status[admitted]
		all.refused += r.Status[refused]
		all.undecided += r.Done - r.Status[admitted] - r.Status[refused]
	}
	return all, nil
}
