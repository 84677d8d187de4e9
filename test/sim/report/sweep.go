package report

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/sim"
)

// The sweep: so many holders of one key, which are offered twice its limit for a minute.
const (
	sweepHolders = 20
	sweepCount   = 1000
	sweepPeriod  = 10 * limit.Second
	sweepLasts   = 60 * limit.Second
)

var (
	algorithms = []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow}
	delays     = []limit.Micros{1, 10, 25, 50, 75, 100, 125, 150} // ms, one way
	settings   = []setting{
		{name: "no loss"},
		{name: "1 % lost", loss: 0.01},
		{name: "2 % lost", loss: 0.02},
		{name: "5 % lost", loss: 0.05},
		{name: "ttl 300 ms", ttl: 300 * limit.Millisecond},
		{name: "interval 1 s", interval: limit.Second},
	}
)

// setting is one line of the plot: how many of the calls and of the answers are lost, and how
// the limit is leased.
type setting struct {
	name          string
	loss          float64
	ttl, interval limit.Micros // 0: the default
}

type result struct {
	share float64 // admitted, of what one exact limiter admits
	worst float64 // admitted in the worst period, of the limit
}

// sweep plays every case, as many at a time as there are processors. The result is a
// function of the seed.
func sweep(seed uint64) (map[string]result, error) {
	results := map[string]result{}
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, a := range algorithms {
		for _, d := range delays {
			for _, s := range settings {
				all.Go(func() error {
					r, err := saturated(seed, a, d*limit.Millisecond, s)
					mu.Lock()
					defer mu.Unlock()
					results[caseName(a, d, s)] = r
					return err
				})
			}
		}
	}
	return results, all.Wait()
}

func caseName(a limit.Algorithm, delay limit.Micros, s setting) string {
	return fmt.Sprint(a, delay, s.name)
}

// saturated is one run: holders whose granter is so far away.
func saturated(seed uint64, a limit.Algorithm, delay limit.Micros, s setting) (result, error) {
	spec := limit.Spec{Algorithm: a, Count: sweepCount, Period: sweepPeriod, LeaseTTL: s.ttl}
	if a == limit.TokenBucket {
		spec.Burst = sweepCount / 4
	}
	r := &sim.Rule{Name: "r", Spec: spec, Scope: rule.ScopeGlobal, OnFailure: lease.FailureDeny, Interval: s.interval}
	rate, n := 2*float64(sweepCount)/float64(sweepPeriod/limit.Second)/sweepHolders, sim.Totals{}
	err := sim.Play(sim.Config{
		Seed: seed, PoPs: sweepHolders,
		Net: sim.Net{Delay: delay, Spread: max(delay/10, 1), LoseCall: s.loss, LoseReply: s.loss},
	}, func(w *sim.World) error {
		for n := range sweepHolders {
			w.Offer(n+1, sim.Load{Rate: rate, Parts: sim.Key(r, "k", 1)}, sweepLasts)
		}
		err := w.Run(sweepLasts)
		n = w.Totals(r, "k")
		return err
	}, r)
	return result{float64(n.Admitted) / float64(n.Exact), float64(n.Worst) / sweepCount}, err
}
