//go:build linux

package region

import (
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/round"
)

// limits is the configuration that both services get, in their common format.
const limits = `domain: bench
descriptors:
  - key: uniform
    rate_limit: { unit: minute, requests_per_unit: 1000 }
  - key: hot
    rate_limit: { unit: minute, requests_per_unit: 1000000 }
  - key: tight
    rate_limit: { unit: minute, requests_per_unit: 10 }
`

const (
	domain    = "bench"
	hotLimit  = 1_000_000 // per minute
	cacheSize = 16 << 20  // of envoyproxy/ratelimit's local cache, in bytes

	admitted = 200
	refused  = 429
)

// load is one kind of traffic. Its name is the entry of its descriptors.
type load struct {
	name  string
	title string
	keys  func(seed uint64) drive.Keys
	want  int // the answer that nearly all requests should get
}

// tightKeys is so few that their limit is used up at once.
const tightKeys = 100

func (b *bench) loads() []load {
	return []load{
		{"uniform", fmt.Sprintf("%d uniform keys, 1000 a minute each", b.plan.keys),
			func(seed uint64) drive.Keys { return drive.Uniform(b.plan.keys, seed) }, admitted},
		{"hot", "one key, 1,000,000 a minute", func(uint64) drive.Keys { return drive.Hot() }, admitted},
		{"tight", fmt.Sprintf("%d keys, 10 a minute each: nearly all denied", tightKeys),
			func(seed uint64) drive.Keys { return drive.Uniform(tightKeys, seed) }, refused},
	}
}

// service is one that answers calls of Envoy's rate limit service.
type service struct {
	name    string
	rls     string
	process *proc.Process
	calls   []string                 // the commands that it sends to Redis; empty: none
	clients map[string]*drive.Client // by load
}

// services are those that are compared.
type services struct {
	empty          *service
	theirs, cached *service // envoyproxy/ratelimit, without and with its local cache
	weir           *service
}

// The commands that services send to Redis. Those that scripts run do not count.
var (
	theirCalls = []string{"incrby", "expire"}
	weirCalls  = []string{"evalsha", "eval"}
)

// ratelimit starts envoyproxy/ratelimit, with a local cache of so many bytes.
func (b *bench) ratelimit(name, process string, cache int) (*service, error) {
	p, err := b.peers.RateLimit(process, b.redis.Addrs(), limits, cache)
	if err != nil {
		return nil, err
	}
	return &service{name: name, rls: p.RLS, process: p.Process, calls: theirCalls, clients: map[string]*drive.Client{}}, nil
}

// weir starts a replica of Weir.
func (b *bench) weir(process string) (*service, error) {
	r, err := b.Replica(process, b.redis.Addrs(), limits)
	if err != nil {
		return nil, err
	}
	return &service{name: "Weir", rls: r.RLS, process: r.Process, calls: weirCalls, clients: map[string]*drive.Client{}}, nil
}

// start starts them once.
func (b *bench) start() (*services, error) {
	if b.services != nil {
		return b.services, nil
	}
	s := &services{}
	var g errgroup.Group
	g.Go(func() error {
		p, err := b.peers.Empty()
		if err == nil {
			s.empty = &service{name: "empty handler", rls: p.RLS, process: p.Process, clients: map[string]*drive.Client{}}
		}
		return err
	})
	g.Go(func() (err error) { s.theirs, err = b.ratelimit("envoyproxy/ratelimit", "theirs", 0); return })
	g.Go(func() (err error) {
		s.cached, err = b.ratelimit("envoyproxy/ratelimit with local cache", "theirs-cached", cacheSize)
		return
	})
	g.Go(func() (err error) { s.weir, err = b.weir("weir"); return })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	b.services = s
	return s, nil
}

// ways are modes by service and load.
type ways struct {
	b   *bench
	all []*round.Mode
	by  map[string]map[string]*round.Mode // by service, by load
}

// add adds s under l. What is measured are s (Parts[0]) and Redis (Parts[1]).
func (w *ways) add(s *service, l load) error {
	client := s.clients[l.name]
	if client == nil {
		var err error
		if client, err = drive.DialRLS(s.rls, drive.Ask{Domain: domain, Entry: l.name}, l.keys(1), conns); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.clients[l.name] = client
		w.b.Cleanup(client.Close)
	}
	m := &round.Mode{
		Name: s.name + ", " + l.name, Client: client, Status: l.want, Settle: w.b.plan.settle,
		Meters: []round.Meter{
			rig.Meter(s.process),
			w.b.redis.meter(),
		},
	}
	if len(s.calls) > 0 {
		m.Count = func() (n int64, err error) {
			defer proc.Recover(&err)
			return w.b.redis.calls(s.calls...), nil
		}
	}
	if s == w.b.services.weir && l.name == "uniform" {
		m.Settle, m.Rest = w.b.plan.lease, w.b.plan.lease
	}
	if w.by[s.name] == nil {
		w.by[s.name] = map[string]*round.Mode{}
	}
	w.by[s.name][l.name] = m
	w.all = append(w.all, m)
	return nil
}

// of is the mode of s under l; nil: it is not measured.
func (w *ways) of(s *service, l load) *round.Mode {
	if s == nil {
		return nil
	}
	return w.by[s.name][l.name]
}

// ways makes the modes of all loads; withCache: of envoyproxy/ratelimit with its
// cache as well.
func (b *bench) ways(withCache bool) (*ways, error) {
	w := &ways{b: b, by: map[string]map[string]*round.Mode{}}
	s := b.services
	for _, l := range b.loads() {
		list := []*service{s.theirs, s.weir}
		if l.name == "uniform" {
			list = append(list, s.empty)
		}
		if withCache || l.want == refused {
			list = append(list, s.cached)
		}
		for _, s := range list {
			if err := w.add(s, l); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}
