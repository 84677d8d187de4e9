package sim

import (
	"math"
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/limit"
)

// Load is what clients send to one PoP: requests at random times.
type Load struct {
	Parts func() []Part // of the next request
	Rate  float64       // requests per second
}

// Offer lets clients send a load to PoP n, counted from 1, from now on for so
// long.
func (w *World) Offer(n int, load Load, d limit.Micros) {
	h, end := w.pops[n-1], w.now()+d
	var send func()
	r := &request{ended: true}
	next := func() {
		gap := limit.Micros(-math.Log(1-w.rand.Float64()) / load.Rate * float64(limit.Second))
		if w.now()+gap <= end {
			w.after(gap, send)
		}
	}
	send = func() {
		if !r.ended {
			r = new(request)
		}
		h.take(r, load.Parts())
		next()
	}
	next()
}

// Key makes every request of a load cost the same on one key.
func Key(r *Rule, key string, cost int64) func() []Part {
	parts := []Part{{r, key, cost}}
	return func() []Part { return parts }
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }
