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

func floods() []flood {
	return []flood{
		{"one key under its limit", hotLimit, []drive.Ask{{Domain: domain, Entry: "hot"}}},
		{"one key over its limit", 10, []drive.Ask{{Domain: domain, Entry: "tight"}}},
		{"one key over its limit, mixed costs", 10, []drive.Ask{
			{Domain: domain, Entry: "tight"}, {Domain: domain, Entry: "tight", Hits: 2},
			{Domain: domain, Entry: "tight", Hits: 7}, {Domain: domain, Entry: "tight", Hits: 1000}}},
	}
}

// attacks counts how often Redis is called while clients send all that they can
// on one key.
func (b *bench) attacks(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: fmt.Sprintf("Attack on one key, %d replicas, %d connections each", replicas, conns)}
	theirs, weir, err := b.replicas(b.redis, "attack")
	if err != nil {
		return nil, err
	}
	defer stop(theirs, weir)
	s.Rows, err = b.compare(floods(), b.plan.attack, theirs, weir, func(name string, f *flood, targets []*service) (table.Row, error) {
		return b.attack(ctx, name, f, targets)
	})
	if err != nil || b.PeersOnly {
		return []table.Section{s}, err
	}
	for _, f := range popFloods {
		row, err := b.attack(ctx, "Weir, "+f.name, &f, weir)
		if err != nil {
			return nil, err
		}
		row.Target = table.Target{Kind: table.AtMost, Bound: (&flood{per: f.per}).bound(b.plan.attack)}
		s.Rows = append(s.Rows, row)
	}
	return []table.Section{s}, nil
}

// compare attacks the replicas of both services with floods of d; none of Weir with PeersOnly.
func (b *bench) compare(floods []flood, d time.Duration, theirs, weir []*service, attack func(name string, f *flood, targets []*service) (table.Row, error)) (rows []table.Row, err error) {
	for i := range floods {
		f := &floods[i]
		peer, err := attack("envoyproxy/ratelimit, "+f.name, f, theirs)
		if err != nil {
			return nil, err
		}
		rows = append(rows, peer)
		if b.PeersOnly {
			continue
		}
		row, err := attack("Weir, "+f.name, f, weir)
		if err != nil {
			return nil, err
		}
		row.Peer, row.Target = peer.Value, table.Target{Kind: table.AtMost, Bound: f.bound(d)}
		rows = append(rows, row)
	}
	return rows, nil
}

// bound is the most calls per second and replica: ten, and the slow start of each
// window that a flood lies in.
func (f *flood) bound(d time.Duration) float64 {
	windows := math.Ceil(d.Minutes()) + 1
	return callsPerSecond + windows*math.Ceil(math.Log2(f.per))/d.Seconds()
}

func stop(lists ...[]*service) {
	for _, list := range lists {
		for _, t := range list {
			t.process.Stop()
		}
	}
}

// replicas starts replicas of both services on c; none of Weir with PeersOnly.
func (b *bench) replicas(c *cluster, name string) (theirs, weir []*service, err error) {
	theirs = make([]*service, replicas)
	if !b.PeersOnly {
		weir = make([]*service, replicas)
	}
	var g errgroup.Group
	for i := range theirs {
		g.Go(func() (err error) {
			theirs[i], err = b.ratelimit(c, "envoyproxy/ratelimit", fmt.Sprintf("%s-theirs-%d", name, i), cacheSize)
			return
		})
	}
	for i := range weir {
		g.Go(func() (err error) { weir[i], err = b.weir(c, fmt.Sprintf("%s-weir-%d", name, i)); return })
	}
	return theirs, weir, g.Wait()
}

// attack floods all targets and is a row of the calls per second of each.
func (b *bench) attack(ctx context.Context, name string, f flooder, targets []*service) (table.Row, error) {
	before := b.redis.calls(targets[0].calls...)
	seen, err := f.send(ctx, targets, b.plan.attack)
	calls := b.redis.calls(targets[0].calls...) - before
	perSecond := float64(calls) / b.plan.attack.Seconds() / float64(len(targets))
	return table.Row{Name: name, Unit: "calls/s/replica", Value: measure.Sample{perSecond}, Note: seen.note()}, err
}

// flooder sends all that it can.
type flooder interface {
	send(ctx context.Context, targets []*service, d time.Duration) (sent, error)
}

// sent is what became of a flood.
type sent struct {
	elapsed                                    time.Duration
	done, admitted, refused, undecided, failed int64
}

func (s *sent) note() string {
	return fmt.Sprintf("%.0f req/s, %.2f %% admitted, %.2f %% undecided, %d failed", float64(s.done)/s.elapsed.Seconds(),
		100*float64(s.admitted)/float64(s.done), 100*float64(s.undecided)/float64(s.done), s.failed)
}

// send sends the flood to all targets at once.
func (f *flood) send(ctx context.Context, targets []*service, d time.Duration) (sent, error) {
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
			results[i], err = c.Run(ctx, drive.Pace{Duration: d})
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
