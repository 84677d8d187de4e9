package sim

import (
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestRandom plays runs in which everything goes wrong that may. WEIR_SIM_SEED
// plays one of them alone.
func TestRandom(t *testing.T) {
	first, runs := uint64(1), runsOf(150, 1000)
	if s := os.Getenv("WEIR_SIM_SEED"); s != "" {
		seed := fatal.Get(strconv.ParseUint(s, 10, 64))(t)
		first, runs = seed, 1
	}
	for seed := first; seed < first+runs; seed++ {
		if err := play(t, seed, None); err != nil {
			t.Errorf("%v\nplay it again with WEIR_SIM_SEED=%d", err, seed)
		}
	}
}

// runsOf is how many runs are played: with -short, and without.
func runsOf(short, long uint64) uint64 {
	if testing.Short() {
		return short
	}
	return long
}

// play is one random run. What is drawn depends on the seed alone.
func play(t *testing.T, seed uint64, fault Fault) error {
	rnd := rand.New(rand.NewPCG(seed, 1))
	period := pick(rnd, limit.Second, 5*limit.Second, limit.Minute)
	spec := limit.Spec{Algorithm: windowed[rnd.IntN(len(windowed))], Count: pick(rnd, int64(10), 100, 500), Period: period}
	consistency := pick(rnd, lease.Leased, lease.Leased, lease.Exact, lease.Optimistic)
	r := newRule(t, "r", spec, consistency)
	r.OnFailure = pick(rnd, lease.FailureAllow, lease.FailureDeny, lease.FailureLocal)
	second := newRule(t, "s", limit.Spec{Algorithm: limit.FixedWindow, Count: 50, Period: period}, consistency)
	c := Config{
		Seed: seed, PoPs: pick(rnd, 1, 2, 5), Relays: pick(rnd, 0, 0, 1, 2), Depth: 1 + int(seed%4/3),
		Start: 20_000*limit.Day - limit.Micros(rnd.IntN(8))*limit.Second,
		Net: Net{
			Delay: pick(rnd, 0, limit.Millisecond, 20*limit.Millisecond), Spread: pick(rnd, 0, 5*limit.Millisecond, 150*limit.Millisecond),
			LoseCall: pick(rnd, 0, 0, 0.05), LoseReply: pick(rnd, 0, 0, 0.05), Repeat: pick(rnd, 0, 0, 0.05),
		},
		Fault: fault, Trace: tracing(),
	}
	most := pick(rnd, 3, 3, max(3, spec.Count/5), spec.Count)
	return Play(c, func(w *World) error {
		for i := range w.PoPs {
			w.Offer(i+1, Load{Rate: float64(pick(rnd, 5, 50, 300)), Parts: func() []Part {
				p := Part{r, pick(rnd, "a", "b"), 1 + rnd.Int64N(most)}
				if w.Relays == 0 && rnd.IntN(8) == 0 {
					return []Part{p, {second, "a", 1}}
				}
				return []Part{p}
			}}, 12*limit.Second)
		}
		for range rnd.IntN(6) {
			w.after(limit.Micros(rnd.Int64N(int64(12*limit.Second))), func() { w.mishap(rnd) })
		}
		w.tracef("%+v, consistency %d, on_failure %d, holders %d relays %d net %+v", spec, consistency, r.OnFailure, w.PoPs, w.Relays, w.Net)
		return w.Run(14 * limit.Second)
	}, r, second)
}

// tracing shows a run that is played alone.
func tracing() io.Writer {
	if os.Getenv("WEIR_SIM_SEED") != "" {
		return os.Stderr
	}
	return nil
}

// mishap is something that goes wrong at once.
func (w *World) mishap(rnd *rand.Rand) {
	h := w.pops[rnd.IntN(len(w.pops))]
	switch rnd.IntN(6) {
	case 0:
		w.RestartGranter()
	case 1:
		w.RestartPoP(1 + rnd.IntN(len(w.pops)))
	case 2:
		if w.Relays > 0 {
			w.restart(w.replicas[rnd.IntN(len(w.replicas))])
		}
	case 3:
		h.Link.Cut = true
		w.after(limit.Second, func() { h.Link.Cut = false })
	case 4:
		w.StepClock(pick(rnd, -limit.Hour, -limit.Second/2, limit.Second/2, limit.Hour))
	case 5:
		h.Pause(limit.Micros(rnd.Int64N(int64(2 * limit.Second))))
		w.region().Pause(limit.Micros(rnd.Int64N(int64(limit.Second))))
	}
}
