package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// TestLiars is promise 11: a holder lies about what comes back, shows epochs that never
// were and has its calls doubled to other replicas; and of all holders calls overtake each
// other between 64 workers, by up to 50 ms. No limit is lifted, no honest call is refused,
// and no key is denied of which nobody has had anything.
func TestLiars(t *testing.T) {
	runs := uint64(40)
	if full() {
		runs = 1000
	}
	for seed := uint64(1); seed <= runs; seed++ {
		if err := playLiars(t, seed, None); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestLiarsAreSeen breaks what keeps them from doing harm.
func TestLiarsAreSeen(t *testing.T) {
	for _, f := range []Fault{MixesWorkers, AppliesTwice} {
		caught := false
		for seed := uint64(1); seed <= 40 && !caught; seed++ {
			caught = playLiars(t, seed, f) != nil
		}
		if !caught {
			t.Errorf("nobody noticed a simulator that %s", f)
		}
	}
}

func playLiars(t *testing.T, seed uint64, fault Fault) error {
	rnd := rand.New(rand.NewPCG(seed, 2))
	spec := limit.Spec{Algorithm: windowed[rnd.IntN(len(windowed))], Count: pick(rnd, int64(20), 100, 1000), Period: pick(rnd, limit.Second, limit.Minute)}
	r := newRule(t, "r", spec, pick(rnd, lease.Leased, lease.Leased, lease.Exact))
	w := New(Config{
		Seed: seed, Holders: 4, Liars: 1, Relays: pick(rnd, 0, 2, 3), Learning: true,
		Workers: 64, Hold: 49 * limit.Millisecond,
		Net:   Net{Delay: limit.Millisecond, Spread: 10 * limit.Millisecond, Repeat: pick(rnd, 0, 0.1)},
		Fault: fault,
	}, r)
	for n := range w.Holders {
		w.Offer(n+1, Load{Rate: float64(pick(rnd, 20, 200)), Parts: func() []Part {
			return []Part{{r, fmt.Sprint("hot", rnd.IntN(3)), 1 + rnd.Int64N(2)}}
		}}, 8*limit.Second)
	}
	var fresh []*request
	for i := range 200 {
		w.after(limit.Micros(rnd.Int64N(int64(8*limit.Second))), func() {
			fresh = append(fresh, w.holders[w.Liars+i%(w.Holders-w.Liars)].request(Part{r, fmt.Sprint("fresh", i), 1}))
		})
	}
	if err := w.Run(10 * limit.Second); err != nil {
		return err
	}
	for i, q := range fresh {
		if !q.admitted {
			return fmt.Errorf("seed %d: request %d was refused, and nobody has had anything of its key", seed, i)
		}
	}
	return nil
}
