package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// TestAlone: a single holder, next to the granter or behind a tier, is denied nothing
// that one exact limiter would admit, whatever requests cost.
func TestAlone(t *testing.T) {
	runs := runsOf(150, 2000)
	seeds := []uint64{693, 2685, 3816, 4764} // here small grants rejected those that waited for more
	for seed := range runs {
		seeds = append(seeds, seed)
	}
	var rejected, costly int64
	for _, seed := range seeds {
		list, err := playAlone(t, seed, None)
		if err != nil {
			t.Errorf("%v", err)
		}
		for _, a := range list {
			rejected += a.Requests - int64(len(a.alone.spent))
			for _, o := range a.alone.spent {
				if o.units > 1 {
					costly++
				}
			}
		}
	}
	if rejected < int64(runs) || costly < int64(runs) {
		t.Errorf("%d were rejected and %d of those admitted cost more than 1: this tests nothing", rejected, costly)
	}
}

// playAlone is one random run of a single holder.
func playAlone(t *testing.T, seed uint64, fault Fault) (list []*account, err error) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	count := pick(rnd, 1+rnd.Int64N(10), 20, 100, 1000)
	spec := limit.Spec{Algorithm: windowed[rnd.IntN(len(windowed))], Count: count, Period: pick(rnd, 20*limit.Second, limit.Minute, limit.Hour)}
	r := newRule(t, "r", spec, lease.Leased)
	second := newRule(t, "s", limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Hour}, lease.Leased)
	r.Timeout, second.Timeout = 1000, 1000 // nobody gives up
	c := Config{
		Seed: seed, Relays: rnd.IntN(2), Alone: true, Fault: fault, Trace: tracing(),
		Start: 20_000*limit.Day - limit.Micros(rnd.IntN(20))*limit.Second,
		Net:   Net{Delay: pick(rnd, 0, limit.Millisecond, 5*limit.Millisecond), Spread: pick(rnd, 0, 0, 5*limit.Millisecond)},
	}
	// Requests of two rules ask for both at once. While they wait they keep what they
	// have taken of one from others, so nobody may come meanwhile.
	groups := c.Relays == 0 && c.Net == Net{} && spec.Algorithm != limit.SlidingLog && rnd.IntN(2) == 0
	most := pick(rnd, 2, max(1, count/7), count)
	err = Play(c, func(w *World) error {
		for _, rate := range []float64{float64(pick(rnd, 1, 5, 30)), float64(pick(rnd, 5, 50, 300))} {
			w.Offer(1, Load{Rate: rate, Parts: func() []Part {
				p := Part{r, "a", 1 + rnd.Int64N(most)}
				if groups && rnd.IntN(3) == 0 {
					return []Part{p, {second, "a", 1 + rnd.Int64N(max(1, count/10))}}
				}
				return []Part{p}
			}}, 12*limit.Second)
		}
		err := w.Run(20 * limit.Second)
		list = w.ref.list
		return err
	}, r, second)
	return list, err
}

// TestAloneCatches proves that the comparison with one exact limiter can fail.
func TestAloneCatches(t *testing.T) {
	catches(t, 500, func(seed uint64, f Fault) error { _, err := playAlone(t, seed, f); return err }, DeniesItsOwn)
}
