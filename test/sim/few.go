package sim

import (
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Few is a run in which one client sends a few requests to several PoPs, once, with a limit per minute. Each region has
// two PoPs and two replicas, and a round trip to the aggregator takes 100 ms.
type Few struct {
	Regions int    // 1, or 3 that share the limit
	Limit   int64  // requests per minute
	Percent int64  // how many requests are sent, in percent of the limit
	Order   string // how they are sent, see Orders
	Leased  bool   // the rule states consistency: leased, and else nothing
}

// Orders are how a client sends its requests: all at once to all PoPs; 50 a second to one PoP after another, in turn to
// all PoPs, or to PoPs at random; or evenly over 50 seconds, to PoPs at random.
var Orders = []string{"at once", "PoP after PoP", "in turn", "at random", "slowly"}

// FewResult is what became of the requests of a run.
type FewResult struct {
	Requests, Admitted int64
	Waited             int64 // requests that waited for an answer
	// False counts false rejections: so many more one exact limiter would have admitted of the same requests.
	False int64
	// Asks is how often PoPs asked their region for units, and Counted how often replicas asked the counters: the region's
	// store, or the aggregator.
	Asks, Counted int64
}

// Play plays the run. It is a function of f.
func (f Few) Play() (r FewResult, err error) {
	of := &Rule{Name: "few", Spec: f.spec(), OnFailure: lease.FailureDeny}
	if f.Exact() && !f.Leased {
		of.Consistency = lease.Exact
	}
	c := Config{
		PoPs: 2 * f.Regions, Relays: 2 * f.Regions, Steady: true, NoJitter: true, Start: 20_000*limit.Day - 2*limit.Second,
		Net: Net{Delay: limit.Millisecond / 2},
	}
	if f.Regions > 1 {
		of.Scope, c.Regions, c.AggregatorNet.Delay = rule.ScopeGlobal, f.Regions, 50*limit.Millisecond
		for i := range f.Regions {
			c.Shares = append(c.Shares, rule.Region{Name: "region" + itoa(i+1), Weight: 1})
		}
	}
	err = Play(c, func(w *World) error {
		if err := w.Run(3 * limit.Second); err != nil { // PoPs and regions have called, and a minute has begun
			return err
		}
		last := f.send(w, Key(of, "k", 1)())
		err := w.Run(last + 2*limit.Second)
		n := w.Totals(of, "k")
		r = FewResult{Requests: n.Requests, Admitted: n.Admitted, Waited: n.Waited, Asks: w.Calls.Asks, Counted: n.Asks}
		return err
	}, of)
	r.False = min(r.Requests, f.Limit) - r.Admitted
	return r, err
}

func (f Few) spec() limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Count: f.Limit, Period: limit.Minute}
}

// Exact reports whether the limit is exact if the rule states no consistency.
func (f Few) Exact() bool { return lease.Few(f.spec(), f.Regions > 1) }

// send has the PoPs take the requests, and returns when the last one comes.
func (f Few) send(w *World, parts []Part) (last limit.Micros) {
	rnd, pops, requests := rand.New(rand.NewPCG(1, 1)), int64(len(w.pops)), f.Limit*f.Percent/100
	for i := range requests {
		at, pop := limit.Micros(i)*20*limit.Millisecond, i%pops
		switch f.Order {
		case "at once":
			at = 0
		case "PoP after PoP":
			pop = i * pops / requests
		case "at random":
			pop = rnd.Int64N(pops)
		case "slowly":
			at, pop = limit.Micros(i)*50*limit.Second/limit.Micros(requests), rnd.Int64N(pops)
		}
		p := w.pops[int(pop)%2*f.Regions+int(pop)/2] // those of a region one after the other
		w.after(at, func() { p.take(new(request), parts) })
		last = at
	}
	return last
}
