package sim

import (
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Scale is a run of the size of a large installation: PoPs of many regions, whose leases
// an aggregator divides, and everything goes wrong from time to time.
type Scale struct {
	Seed          uint64
	Algorithm     limit.Algorithm // token bucket or fixed window
	PoPs, Regions int
	Rate          float64 // requests per second, over all PoPs
	Lasts         limit.Micros
	Fault         Fault
}

// Shapes are the traffic of such a run, each under a rule of its own.
type Shapes struct {
	// Uniform has a key for each PoP, with room for forty times its requests.
	Uniform *Rule
	// Zipf has fifty keys at a PoP of every other region; a few get most of the requests.
	Zipf *Rule
	// Flood has ten PoPs of one region: nearly all of it asks for one key, and the rest for
	// a new key with every request.
	Flood *Rule
}

// Each returns the rules.
func (s *Shapes) Each() []*Rule { return []*Rule{s.Uniform, s.Zipf, s.Flood} }

// Start makes the world and its load, in a bubble. Run it for Lasts and close it.
func (s Scale) Start() (*World, *Shapes) {
	perMinute := func(name string, rate float64, failure lease.OnFailure) *Rule {
		spec := limit.Spec{Algorithm: s.Algorithm, Count: max(int64(60*rate), 10), Period: limit.Minute}
		return &Rule{Name: name, Spec: spec, OnFailure: failure, Scope: rule.ScopeGlobal}
	}
	uniform, zipf, flood := 0.06*s.Rate, 0.2*s.Rate, 0.74*s.Rate
	shapes := &Shapes{
		Uniform: perMinute("uniform", 40*uniform/float64(s.PoPs), lease.FailureAllow),
		Zipf:    perMinute("zipf", zipf/20, lease.FailureDeny),
		Flood:   perMinute("flood", flood/4, lease.FailureDeny),
	}
	w := New(Config{
		Seed: s.Seed, PoPs: s.PoPs, Relays: s.Regions, Regions: s.Regions, Grain: limit.Millisecond, RulesEvery: limit.Minute, MaxCounters: 1 << 13, Fault: s.Fault,
		Net: Net{Delay: limit.Millisecond, Spread: 9 * limit.Millisecond, LoseCall: 0.002, LoseReply: 0.005, Repeat: 0.002},
		Far: Net{Delay: 30 * limit.Millisecond, Spread: 40 * limit.Millisecond, LoseCall: 0.005, LoseReply: 0.002},
	}, shapes.Each()...)
	for n := range s.PoPs {
		w.Offer(n+1, Load{Rate: uniform / float64(s.PoPs), Parts: Key(shapes.Uniform, "u"+itoa(n), 1)}, s.Lasts)
		if n < s.Regions/2 {
			w.Offer(n+1, Load{Rate: zipf / float64(s.Regions/2), Parts: s.zipf(w, shapes.Zipf)}, s.Lasts)
		}
		if n%s.Regions == 0 && n < 10*s.Regions {
			w.Offer(n+1, Load{Rate: flood / 10, Parts: s.flood(w, shapes.Flood, n)}, s.Lasts)
		}
	}
	s.spoil(w)
	return w, shapes
}

func (s Scale) zipf(w *World, r *Rule) func() []Part {
	const keys = 50
	names := make([]func() []Part, keys)
	for i := range names {
		names[i] = Key(r, "z"+itoa(i), 1)
	}
	draw := rand.NewZipf(w.rand, 1.5, 1, keys-1)
	return func() []Part { return names[draw.Uint64()]() }
}

func (s Scale) flood(w *World, r *Rule, n int) func() []Part {
	hot, serial := Key(r, "hot", 1), 0
	return func() []Part {
		if w.rand.IntN(1000) > 0 {
			return hot()
		}
		serial++
		return []Part{{r, "f" + itoa(n) + "." + itoa(serial), 1}}
	}
}

// spoil lets something go wrong every few seconds.
func (s Scale) spoil(w *World) {
	end := w.now() + s.Lasts
	var next func()
	next = func() {
		w.scaleMishap()
		if w.now()+10*limit.Second < end {
			w.after(limit.Micros(w.rand.Int64N(int64(10*limit.Second))), next)
		}
	}
	w.after(5*limit.Second, next)
}

// scaleMishap is something that goes wrong at one PoP, or at one region.
func (w *World) scaleMishap() {
	p, t := w.pops[w.rand.IntN(len(w.pops))], w.replicas[w.rand.IntN(len(w.replicas))]
	lasts := limit.Second + limit.Micros(w.rand.Int64N(int64(9*limit.Second)))
	switch w.rand.IntN(6) {
	case 0:
		w.RestartPoP(1 + w.rand.IntN(len(w.pops)))
	case 1:
		w.restart(t)
	case 2: // a PoP is cut off
		w.cutFor(p.Link, lasts)
	case 3: // a region is cut off from the aggregator
		w.cutFor(t.Link, lasts)
	case 4:
		w.StepClock(pick(w.rand, -limit.Second/2, limit.Second/2))
	case 5:
		p.Pause(lasts / 5)
		t.Pause(lasts / 10)
	}
}
