package holder

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// alone is the only holder of a key, with no time between it and its granter.
type alone struct {
	t       *rapid.T
	limit   *limit.Limit
	terms   lease.Terms
	now     limit.Micros
	state   State
	counter granter.Counter
}

func (h *alone) ms() lease.Millis { return lease.Millis(h.now/limit.Millisecond) - 1_699_999_000_000 }

// request decides a request as a PoP does.
func (h *alone) request(cost int64) bool {
	for range 6 {
		d := h.state.Take(&h.terms, h.ms(), cost)
		if d.Ask != NoAsk {
			h.ask(h.state.Ask(&h.terms, h.ms(), 0, 0, d.Ask), 0)
		}
		if d.Verdict != Wait {
			return d.Verdict == Admit
		}
		if h.ask(h.state.Ask(&h.terms, h.ms(), cost, cost, NoAsk), cost) {
			return true
		}
	}
	h.t.Fatalf("a request of %d is asked for again and again; %+v", cost, h.state)
	return false
}

// ask sends a want, and takes so many units of the grant for the request that waits, if it has them.
func (h *alone) ask(w lease.Want, cost int64) (served bool) {
	g := h.counter.Acquire(h.limit, &h.terms, h.now, w)
	spare := g.Granted
	if served = cost > 0 && g.Granted >= cost; served {
		spare -= cost
	}
	if back := h.state.Apply(&h.terms, h.ms(), h.ms(), w, g, spare, 100); back.Units > 0 {
		h.counter.Acquire(h.limit, &h.terms, h.now, lease.Want{Unused: back.Units, Lease: back.Lease})
	}
	return served
}

// upTo is a number from 0 to n.
func upTo(t *rapid.T, n int64) int64 { return rapid.Int64Range(0, max(n, 0)).Draw(t, "n") }

// Never more is admitted than the limit. A request that is rejected and comes back when it was told is admitted, and it was not told to come back much later than
// an exact limiter would admit it.
func TestComesBackAsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := limit.Spec{
			Algorithm: limit.Algorithm(upTo(t, 3)), Count: 1 + upTo(t, 20), Align: limit.Align(upTo(t, 1)),
			Period: []limit.Micros{limit.Second, 10 * limit.Second, limit.Minute}[upTo(t, 2)],
		}
		if spec.Algorithm != limit.FixedWindow {
			spec.Align = limit.AlignClock
		}
		l := fatal.Get(limit.New(spec))(t)
		h := &alone{t: t, limit: l, terms: lease.NewTerms(l, lease.Consistency(upTo(t, 1)), 0, 0, 0), now: 1_700_000_000_000 * limit.Millisecond}
		var exact limit.State // of a limiter that has admitted the same
		for range 60 {
			h.now += []limit.Micros{0, 1, 30, 400, 1500, 11_000}[upTo(t, 5)] * limit.Millisecond
			cost := 1 + upTo(t, spec.Count)
			before := h.state
			known := h.state.Known(&h.terms, h.ms(), cost)
			if h.state != before {
				t.Fatalf("%+v became %+v by a look", before, h.state)
			}
			admitted := h.request(cost)
			if admitted && known > 0 {
				t.Fatalf("a request of %d is admitted, which was to come back after %d ms; %+v", cost, known, before)
			}
			if !admitted {
				told, peek := h.state.Retry(&h.terms, h.ms(), cost), l.Peek(exact, h.now, cost)
				least := peek.RetryAfter
				if spec.Algorithm == limit.SlidingWindow || spec.Algorithm == limit.SlidingLog {
					least = peek.Reset // the granter has stated no more for larger costs
				}
				switch {
				case cost > spec.Count:
					if told != lease.Never {
						t.Fatalf("%d of %d: come back after %d ms", cost, spec.Count, told)
					}
					continue
				case told < 1 || limit.Micros(told)*limit.Millisecond > least+limit.Second+spec.Period/50:
					t.Fatalf("a request of %d has to come back after %d ms, one limiter has it in %d µs at most; %+v", cost, told, least, h.state)
				case upTo(t, 2) == 0: // it does not come back
					continue
				}
				h.now += limit.Micros(told+999) / 1000 * limit.Second
				if admitted = h.request(cost); !admitted {
					t.Fatalf("a request of %d is rejected %d ms after it was rejected; %+v", cost, told, h.state)
				}
			}
			// Tokens come in while others are on lease; all else is charged before it is spent.
			if exact = l.Charge(exact, h.now, cost); exact.Level > spec.Count && spec.Algorithm != limit.TokenBucket {
				t.Fatalf("%d are admitted of %d; %+v", exact.Level, spec.Count, h.state)
			}
		}
	})
}
