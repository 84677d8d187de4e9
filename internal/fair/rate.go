package fair

import (
	"math"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// keptFor is for how long a token bucket keeps for a region what came in for it: about the longest time between two
// asks of a region that is in use.
const keptFor = limit.Second / 3

// divideRate divides what comes into a token bucket: the parts of all regions are no more
// than that, so that the bucket always holds what came in for them.
func (s *Shares) divideRate(l *limit.Limit, equal bool, span limit.Micros) {
	rate, sum := rateOf(l), 0.0
	claim := func(r *region) (has, claim float64) { return 0, headroom * r.demand / float64(span) }
	for i := range s.regions {
		_, c := claim(&s.regions[i])
		sum += c
	}
	level, scale := math.Inf(1), 1.0
	if equal {
		level = fill(rate, s.regions, claim)
	} else if sum > rate {
		scale = rate / sum
	}
	for i := range s.regions {
		_, c := claim(&s.regions[i])
		s.regions[i].part = min(c*scale, level)
	}
}

// credits is what the other regions have not taken of a token bucket, at most so much that the region's own
// part is left, and what the region leaves in the bucket because it owes as much.
func (s *Shares) credits(t *lease.Terms, id uint64, part int64) int64 {
	others, owes := 0.0, 0.0
	for i := range s.regions {
		if r := &s.regions[i]; r.id != id {
			others += max(0, r.credit)
		} else {
			owes = max(0, -r.credit)
		}
	}
	return min(min(int64(others), max(0, t.Capacity-part))+int64(owes), t.Capacity)
}

// rateOf is how much comes into a limit, in units per microsecond.
func rateOf(l *limit.Limit) float64 {
	s := l.Spec()
	return float64(s.Count) / float64(s.Period)
}

// spanOf is over how long a demand is averaged.
func spanOf(l *limit.Limit, t *lease.Terms) limit.Micros {
	rate := rateOf(l)
	if rate == 0 {
		return shortest
	}
	return limit.Micros(min(max(float64(t.Capacity)/rate/10, float64(shortest)), float64(limit.MaxPeriod)))
}

// largestCredit is how much of a token bucket is kept for a region: what comes in for it in keptFor, or while some units come in
// for all, but no more than in the time that fills the bucket.
func (r *region) largestCredit(l *limit.Limit) float64 {
	const some = 8
	s, rate := l.Spec(), rateOf(l)
	if rate == 0 {
		return 0
	}
	return r.part * min(max(float64(keptFor), some/rate), float64(s.Burst)/rate)
}
