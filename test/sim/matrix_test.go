package sim

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

var windowed = []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog}

// TestMatrix saturates limits of all sizes, periods and algorithms from one, two
// and a hundred holders, directly and through two tiers, and holds them to both
// bounds: never too much, and 98 % of what one exact limiter admits.
func TestMatrix(t *testing.T) {
	for _, algorithm := range windowed {
		for _, count := range []int64{10, 500, 100_000} {
			for _, period := range []limit.Micros{limit.Second, limit.Minute, limit.Hour} {
				t.Run(fmt.Sprintf("%s %d per %v s", algorithm, count, period/limit.Second), func(t *testing.T) {
					t.Parallel()
					for _, c := range crowds {
						for _, most := range costs(count, c) {
							for _, relays := range []int{0, min(2, c.holders)} {
								if skipped(algorithm, count, period, c, most, relays) {
									continue
								}
								saturate(t, algorithm, count, period, c, most, relays)
							}
						}
					}
				})
			}
		}
	}
}

// costs are the largest costs of a request that are played: 1, what all holders have on
// lease most of the time, and of small limits a fifth of it.
func costs(count int64, c crowd) []int64 {
	all := []int64{1, max(count/100/int64(c.active), 2)}
	if fifth := count / 5; count <= 500 && c.active <= 2 && fifth > all[1] {
		all = append(all, fifth)
	}
	return all
}

type crowd struct{ holders, active int }

var crowds = []crowd{{1, 1}, {2, 1}, {2, 2}, {100, 1}, {100, 100}}

// skipped are the cases that only the long form plays: a million requests, idle holders beside the active one in more
// than one form, and windows of an hour: of a window only its end and its beginning are played, which are those of a
// minute.
func skipped(algorithm limit.Algorithm, count int64, period limit.Micros, c crowd, most int64, relays int) bool {
	hour := period == limit.Hour && (algorithm == limit.FixedWindow || algorithm == limit.SlidingWindow)
	idle := c.holders > c.active && (relays > 0 || most == 1)
	large := count == 100_000 && (most == 1 || c.active == 1 || c.active == 100)
	return testing.Short() && (idle || hour || large)
}

// saturate offers more than twice a limit: the whole of it in the last seconds of
// a period, and again in the first of the next; of a period of a second, four.
func saturate(t *testing.T, algorithm limit.Algorithm, count int64, period limit.Micros, c crowd, most int64, relays int) {
	r := newRule(t, "r", limit.Spec{Algorithm: algorithm, Count: count, Period: period}, lease.Leased)
	mean := 1.0
	if most > 1 {
		mean += float64(most+1) / 8
	}
	span, spans := 4*limit.Second, 2
	if period == limit.Second {
		span, spans = limit.Second, min(4, max(2, int(100_000*mean/float64(count))))
		if count <= 500 && c.active <= 2 && (most > 1 || relays > 0) {
			// So few costly requests fit into one window (of 10, some five) that chance would
			// decide: a window differs from that of an exact limiter by less than a request,
			// most - 1 units either way, and the share of n windows by 1/√n of it. For a limit of
			// 10 that is a tenth of one window, and 0.025 of 16: half of what is allowed below
			// for rounding. Behind a tier a window differs more, because what comes back to a
			// sliding limit of a second is asked for late.
			spans = 16
			if 5*most >= count { // of 25 seeds, one or two of 16 windows were below the bound
				spans = 48
			}
		}
	}
	d := span * limit.Micros(spans)
	err := Play(Config{
		Seed: uint64(count) + uint64(period), PoPs: c.holders, Relays: relays,
		Start: 20_000*limit.Day - span, Net: Net{Delay: limit.Millisecond, Spread: 2 * limit.Millisecond},
	}, func(w *World) error {
		parts := Key(r, "k", 1)
		if most > 1 { // most requests cost 1, and some up to most
			parts = func() []Part {
				cost := int64(1)
				if w.rand.IntN(4) == 0 {
					cost += w.rand.Int64N(most)
				}
				return []Part{{r, "k", cost}}
			}
		}
		for i := range c.active {
			w.Offer(i+1, Load{Rate: 2.5 * float64(count) / mean / seconds(span) / float64(c.active), Parts: parts}, d)
		}
		if err := w.Run(d); err != nil {
			return err
		}
		n := w.Totals(r, "k")
		inHand := float64(spans) / 2 // rounding, and when the run stops in the middle of things
		if algorithm == limit.TokenBucket || algorithm == limit.SlidingLog {
			inHand += float64(w.ref.list[0].onLease) + float64(1+min(relays, 1))*0.1*float64(count)/seconds(max(period, span))
		}
		saturated := n.Requests >= 100*int64(c.active)
		if float64(n.Admitted)+inHand < guaranteed(algorithm, period, relays, c.active == 100 && count == 100_000)*float64(n.Exact) && saturated {
			return fmt.Errorf("%d admitted, %d by one exact limiter: %.3f", n.Admitted, n.Exact, float64(n.Admitted)/float64(n.Exact))
		}
		return nil
	}, r)
	if err != nil {
		t.Errorf("%+v, costs to %d, relays %d: %v", c, most, relays, err)
	}
}

// guaranteed is the share of what one exact limiter admits that must be admitted:
// 98 %, less ttl ÷ window of a log. Sliding limits of a second lose more: what
// comes back is idle until the next ask, a hundredth of the window on average, which
// gathers with others for up to another hundredth before it leaves, and
// at a second tier once more, where a log's leases of 20 ms run out on the way. A hundred
// holders have units of a large fixed window on lease when it ends.
func guaranteed(a limit.Algorithm, period limit.Micros, relays int, crowded bool) float64 {
	share := 0.98
	if a == limit.FixedWindow && crowded {
		share = 0.95
	}
	if a == limit.SlidingLog {
		share -= 0.02
	}
	sliding := a == limit.SlidingLog || a == limit.SlidingWindow
	if sliding && period == limit.Second {
		share -= 0.02
		if relays > 0 {
			share -= 0.06
		}
	}
	return share
}

func seconds(d limit.Micros) float64 { return float64(d) / float64(limit.Second) }
