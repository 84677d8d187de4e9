package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	ruleset "github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// Few is a run in which one client sends a few requests to several PoPs, once, with a limit per minute. Each region has
// two PoPs and two replicas, and a round trip to the aggregator takes 100 ms.
type Few struct {
	Regions     int    // 1, or 3 that share the limit
	Limit       int64  // requests per minute
	Percent     int64  // how many requests are sent, in percent of the limit
	Order       string // how they are sent, see Orders
	Consistency string // that the rule states; empty: none
}

// Orders are how a client sends its requests: all at once to all PoPs; 50 a second to one PoP after another, in turn to
// all PoPs, or to PoPs at random; or evenly over 50 seconds, to PoPs at random.
var Orders = []string{"at once", "PoP after PoP", "in turn", "at random", "slowly"}

// FewResult is what became of the requests of a run.
type FewResult struct {
	Requests, Admitted int64
	Waited             int64 // requests that waited for an answer
	// False counts false refusals: so many more one exact limiter would have admitted of the same requests.
	False int64
	// Asks is how often PoPs asked their region for units, and Counted how often replicas asked the counters: the region's
	// store, or the aggregator.
	Asks, Counted int64
}

// Play plays the run. It is a function of f.
func (f Few) Play() (r FewResult, err error) {
	c, calls, err := f.config()
	if err != nil {
		return r, err
	}
	err = world.Play(c, func(w *world.World) error {
		w.Run(3 * limit.Second) // PoPs and regions have called, and a minute has begun
		asks, counted := calls.pops.Load(), calls.counters.Load()
		last := f.send(w, &r)
		w.Run(last + 2*limit.Second)
		r.Asks, r.Counted = calls.pops.Load()-asks, calls.counters.Load()-counted
		return nil
	})
	r.False = min(r.Requests, f.Limit) - r.Admitted
	return r, err
}

// Exact reports whether the limit is exact if the rule states no consistency.
func (f Few) Exact() bool {
	return lease.Few(limit.Spec{Algorithm: limit.FixedWindow, Count: f.Limit, Period: limit.Minute}, f.Regions > 1)
}

func (f Few) config() (world.Config, *fewCalls, error) {
	rule := fmt.Sprintf("rules: [ { name: few, key: [client_ip], limit: %d/1m, on_failure: deny", f.Limit)
	if f.Consistency != "" {
		rule += ", consistency: " + f.Consistency
	}
	if f.Regions > 1 {
		rule = "regions: { region1: 1, region2: 1, region3: 1 }\n" + rule + ", scope: global"
	}
	set, err := rulefile.Parse("few.yaml", []byte(rule+" } ]"))
	if err != nil {
		return world.Config{}, nil, err
	}
	calls := &fewCalls{}
	c := world.Config{
		Rules: set.Dated(1), Steady: true, NoJitter: true, Replicas: 2, Start: 20_000*limit.Day - 2*limit.Second,
		Net: Net{Delay: limit.Millisecond / 2}, Observer: calls,
	}
	for i := range 2 * f.Regions {
		region := fmt.Sprint("region", i/2+1)
		c.PoPs = append(c.PoPs, world.PoPConfig{Name: fmt.Sprint("pop", i), Region: region})
		if i%2 == 0 && f.Regions > 1 {
			c.Regions, c.Far.Delay = append(c.Regions, region), 50*limit.Millisecond
		}
	}
	return c, calls, nil
}

// send has the PoPs take the requests, and returns when the last one comes.
func (f Few) send(w *world.World, r *FewResult) (last limit.Micros) {
	rnd, pops := rand.New(rand.NewPCG(1, 1)), int64(len(w.PoPs))
	r.Requests = f.Limit * f.Percent / 100
	for i := range r.Requests {
		at, pop := limit.Micros(i)*20*limit.Millisecond, i%pops
		switch f.Order {
		case "at once":
			at = 0
		case "PoP after PoP":
			pop = i * pops / r.Requests
		case "at random":
			pop = rnd.Int64N(pops)
		case "slowly":
			at, pop = limit.Micros(i)*50*limit.Second/limit.Micros(r.Requests), rnd.Int64N(pops)
		}
		w.After(at, func() { r.one(w.PoPs[pop]) })
		last = at
	}
	return last
}

// one is one request.
func (r *FewResult) one(p *world.PoP) {
	q, waits := ruleset.Request{Path: "/", Client: "192.0.2.1"}, true
	p.Request(&world.Request{Fill: q.Fill, Decided: func(d *world.Request) {
		waits = false
		if d.Edge.Outcome == edge.Admit {
			r.Admitted++
		}
	}})
	if waits {
		r.Waited++
	}
}

// fewCalls counts the asks for units at two borders.
type fewCalls struct{ pops, counters atomic.Int64 }

func (*fewCalls) Begins(*world.World)                             {}
func (*fewCalls) Happened(*world.PoP)                             {}
func (*fewCalls) Passes(*world.Call, world.Stage)                 {}
func (*fewCalls) Cell(_ *world.Region, c engine.Cell) engine.Cell { return c }

func (c *fewCalls) Wraps(s engine.Store, at world.Border, l *world.Life) engine.Store {
	switch {
	case at == world.Counters:
		return &askedStore{s, &c.counters}
	case at == world.Served && l.Tier.Link.Above != nil:
		return &askedStore{s, &c.pops}
	}
	return s
}

// askedStore counts the asks for units.
type askedStore struct {
	engine.Store
	asks *atomic.Int64
}

func (s *askedStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		if asks[i].Want.Want > 0 {
			s.asks.Add(1)
		}
	}
	s.Store.Acquire(ctx, asks, grants)
}
