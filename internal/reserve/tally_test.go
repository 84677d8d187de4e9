package reserve

import (
	"maps"

	"github.com/weirlimit/weir/internal/limit"
)

// counted is one limit: what aggregators granted of it, and all that was admitted.
type counted struct {
	w       *world
	spec    limit.Spec
	window  Window
	granted map[limit.Micros]int64 // by window
	debts   map[limit.Micros]int64 // by the window from which they are taken
	log     []admission            // what counts of a limit that looks back
	bucket  bucket                 // of a token bucket, at the aggregators
	watch   bucket                 // the same, of all that is admitted
	total   int64
	tallies []*tally // of the regions
}

// admission is so many units at a time of the store that charged them.
type admission struct {
	at    limit.Micros
	units int64
}

// tally is what one region admitted of one limit.
type tally struct {
	site     *site
	admits   map[limit.Micros]int64        // from the reserve, by window
	log      []admission                   // the same, of a limit that looks back
	buckets  map[limit.Micros]bucket       // the same of a token bucket, by the first window
	trickles map[[2]limit.Micros]int64     // at its part of the rate, by window and outage
	cut      map[limit.Micros]limit.Micros // for how long it was cut off, by window
	part     PerMille                      // the largest by which it went on
	debt     int64                         // not yet reported
}

func newTally(s *site) *tally {
	t := &tally{site: s, cut: map[limit.Micros]limit.Micros{}, trickles: map[[2]limit.Micros]int64{}}
	t.clear()
	return t
}

// clear forgets what the region's store has lost.
func (t *tally) clear() {
	t.admits, t.log, t.buckets = map[limit.Micros]int64{}, nil, map[limit.Micros]bucket{}
}

func newCounted(w *world, spec limit.Spec) *counted {
	if spec.Burst == 0 {
		spec.Burst = spec.Count
	}
	full := bucket{start, spec.Burst * int64(spec.Period)}
	return &counted{w: w, spec: spec, window: WindowOf(spec), granted: map[limit.Micros]int64{}, debts: map[limit.Micros]int64{}, bucket: full, watch: full}
}

// wants is how much a region wants of it in one step.
func (c *counted) wants(s *site) int64 {
	w, share := s.w, float64(c.spec.Count)*float64(step)/float64(c.spec.Period)/float64(len(s.w.sites))
	switch {
	case c.window.Refills && w.quiet && w.flaps == 0:
		return int64(2*share + w.rng.Float64())
	case c.window.Refills:
		if s.mood > 0 && w.rng.IntN(50) == 0 {
			return w.rng.Int64N(c.spec.Burst + 1)
		}
		return int64(s.mood*share + w.rng.Float64()*min(s.mood, 1))
	case c.window.LooksBack && !w.quiet:
		return 1 + int64(pick(w, 0, 0, 0, 0.1, 0.5)*float64(c.spec.Count))
	case w.scenario.demand > 0:
		return 1 + int64(w.scenario.demand*share+w.rng.Float64())
	}
	return 1 + int64(1.5*share+w.rng.Float64())
}

// grant is what an aggregator grants of a window, at a time of its store.
func (c *counted) grant(begin, now limit.Micros, part PerMille, want int64) int64 {
	left := part.Without(c.spec.Count) - c.granted[begin] - c.debts[begin]
	switch {
	case c.window.Refills:
		c.bucket.refill(now, part.Without(c.spec.Count), part.Without(c.spec.Burst), c.spec.Period)
		left = c.bucket.level / int64(c.spec.Period)
	case c.window.LooksBack:
		period := int64(c.window.Period)
		left = (part.Without(c.spec.Count)*period - c.weight(c.log, now)) / period
	}
	n := max(0, min(want, left))
	if n > 0 {
		c.granted[begin] += n
		c.bucket.level -= n * int64(c.spec.Period)
		c.log = c.logged(c.log, now, n)
		c.check(now, begin, n)
	}
	return n
}

// admit lets the region admit up to so many units of its reserve in a window, of which it has most.
func (t *tally) admit(c *counted, now, begin limit.Micros, most, want int64) {
	left := most - t.admits[begin]
	if c.window.LooksBack {
		period := int64(c.window.Period)
		left = (most*period - c.weight(t.log, now)) / period
	}
	if n := max(0, min(want, left)); n > 0 {
		t.admits[begin] += n
		t.log = c.logged(t.log, now, n)
		c.check(now, begin, n)
	}
}

// admitBucket lets the region admit up to so many units of its share of a token bucket, which began empty with the first window
// in which it may be used.
func (t *tally) admitBucket(c *counted, now, first limit.Micros, part PerMille, want int64) {
	own := t.buckets[first]
	own.at = max(own.at, first)
	own.refill(now, c.spec.Count*int64(part), c.spec.Burst*int64(part), c.spec.Period)
	n := max(0, min(want, own.level/int64(c.spec.Period*limit.Micros(Whole))))
	own.level -= n * int64(c.spec.Period*limit.Micros(Whole))
	if t.buckets[first] = own; n > 0 {
		c.check(now, first, n)
	}
}

// trickle lets the region go on at its part of the rate, in a window that it has renounced, if it was cut off until now.
func (t *tally) trickle(c *counted, now, begin, cut limit.Micros, part PerMille, want int64) {
	key := [2]limit.Micros{begin, cut}
	n := max(0, min(want, Trickle(c.spec, part, begin, cut, now)-t.trickles[key]))
	if n == 0 || c.window.Refills || c.window.LooksBack {
		return
	}
	t.trickles[key] += n
	t.debt += n
	t.part = max(t.part, part)
	var sum int64
	for k, n := range t.trickles {
		if k[0] == begin {
			sum += n
		}
	}
	// Time passes in steps.
	if most := Trickle(c.spec, t.part, begin, begin, begin+t.cut[begin]+step); sum > most && !c.w.steps {
		c.w.fail("%s went on with %d units of window %d, in %d s only %d come in", t.site.name, sum, begin-c.w.now, t.cut[begin]/limit.Second, most)
	}
}

// check fails if more was admitted than the limit allows, after so many units were, at a time of the store that
// charged them.
func (c *counted) check(now, begin limit.Micros, n int64) {
	c.total += n
	switch {
	case c.window.Refills:
		c.watch.refill(c.w.now, c.spec.Count, c.spec.Burst, c.spec.Period)
		if c.watch.level -= n * int64(c.spec.Period); c.watch.level < 0 {
			c.w.fail("bucket: %d units more than burst and rate", -c.watch.level/int64(c.spec.Period))
		}
	case c.window.LooksBack:
		c.checkBack(now)
	default:
		sum, most := c.granted[begin], c.spec.Count
		for _, t := range c.tallies {
			if sum += t.admits[begin]; begin <= t.site.forgot {
				most += t.admits[begin]
			}
		}
		if sum > most {
			c.w.fail("window %d of %d s: %d of %d", begin-c.w.now, c.window.Period/limit.Second, sum, most)
		}
	}
}

// checkBack looks at all times at which an admission now counts.
func (c *counted) checkBack(now limit.Micros) {
	logs := [][]admission{c.log}
	for _, t := range c.tallies {
		logs = append(logs, t.log)
	}
	at := func(x limit.Micros) {
		var sum int64
		for _, log := range logs {
			sum += c.weight(log, x)
		}
		if sum > c.spec.Count*int64(c.window.Period) {
			c.w.fail("%v: %d of %d", c.spec.Algorithm, sum/int64(c.window.Period), c.spec.Count)
		}
	}
	at(now)
	for _, log := range logs {
		for _, a := range log {
			if a.at > now && a.at < now+2*c.window.Period {
				at(a.at)
			}
		}
	}
}

// weight is what counts of a log at a time, times the period.
func (c *counted) weight(log []admission, at limit.Micros) (sum int64) {
	period, begin := c.window.Period, c.window.Begin(at)
	for _, a := range log {
		switch {
		case a.at > at:
		case c.spec.Algorithm == limit.SlidingLog:
			if a.at > at-period {
				sum += a.units * int64(period)
			}
		case a.at >= begin:
			sum += a.units * int64(period)
		case a.at >= begin-period:
			sum += a.units * int64(begin+period-at)
		}
	}
	return sum
}

func (c *counted) logged(log []admission, now limit.Micros, n int64) []admission {
	if !c.window.LooksBack {
		return nil
	}
	for len(log) > 0 && log[0].at < now-4*c.window.Period-4*limit.Second {
		log = log[1:]
	}
	return append(log, admission{now, n})
}

// utilisation is how much was admitted of what might have been, without the windows at the beginning and the end.
func (c *counted) utilisation() float64 {
	if c.window.Refills {
		return float64(c.total) / (float64(c.spec.Burst) + float64(c.w.now-start)*float64(c.spec.Count)/float64(c.spec.Period))
	}
	var sum, windows int64
	for begin := range maps.Keys(c.granted) {
		if begin > start+c.window.Period && begin < c.w.now-c.window.Period {
			windows++
			sum += c.granted[begin]
			for _, t := range c.tallies {
				sum += t.admits[begin]
			}
		}
	}
	return float64(sum) / float64(max(windows, 1)*c.spec.Count)
}

// bucket is a token bucket. Its level is in units times the period.
type bucket struct {
	at    limit.Micros
	level int64
}

func (b *bucket) refill(at limit.Micros, count, burst int64, period limit.Micros) {
	b.level = min(b.level+int64(max(at-b.at, 0))*count, burst*int64(period))
	b.at = max(b.at, at)
}
