package fair

import (
	"math"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// plan is what is expected of a window until it ends: what each region has and claims of it,
// and how much nobody has.
func (s *Shares) plan(l *limit.Limit, t *lease.Terms, now limit.Micros, ahead bool) (claims func(*region) (has, claim float64), unused, left float64) {
	left = float64(max(s.ends-now, 0))
	if ahead || s.ends == 0 {
		left = float64(t.Window)
	}
	span := float64(spanOf(l, t))
	open := left
	if t.Lead > 0 { // and leases of the next window follow
		open -= min(2*left/3, float64(heldIntervals*t.Interval)*float64(limit.Millisecond))
	}
	claims = func(r *region) (has, claim float64) {
		if has = r.used + float64(s.owed(l, r)); ahead {
			has = r.ahead
		}
		return has, has + headroom*r.demand/span*open
	}
	unused = float64(t.Capacity)
	for i := range s.regions {
		has, _ := claims(&s.regions[i])
		unused -= has
	}
	return claims, max(0, unused), left
}

// limitAhead limits what a region gets ahead of its requests to its part of what is left of a
// window, with headroom, if that will not last. Otherwise a region with little demand would still
// have a lease when the others have none. What its requests need is for whoever asks first.
func (s *Shares) limitAhead(l *limit.Limit, t *lease.Terms, now limit.Micros, r *region, w *lease.Want) {
	claims, unused, _ := s.plan(l, t, now, s.isAhead(t, now, w))
	all, expected := 0.0, 0.0
	for i := range s.regions {
		has, claim := claims(&s.regions[i])
		all += s.regions[i].demand
		expected += claim - has
	}
	if expected <= unused {
		return
	}
	most := headroom * unused * r.demand / all
	w.Want = max(w.Waiting, min(w.Want, int64(math.Ceil(most))))
	w.Soon = min(w.Soon, w.Want-w.Waiting)
}

// planned is what the other regions are expected to want of a window until it ends, without
// what is over an equal level.
func (s *Shares) planned(l *limit.Limit, t *lease.Terms, now limit.Micros, id uint64, w *lease.Want) int64 {
	expected, unused, left := s.plan(l, t, now, s.isAhead(t, now, w))
	claims := func(r *region) (has, claim float64) {
		if has, claim = expected(r); r.id == id { // what waits is more than expected
			claim = max(claim, has+float64(w.Waiting))
		}
		return has, claim
	}
	level, mine, others := fill(unused, s.regions, claims), 0.0, 0.0
	for i := range s.regions {
		r := &s.regions[i]
		has, claim := claims(r)
		if part := max(0, min(claim, level)-has); r.id == id {
			mine = part
		} else {
			others += part
		}
	}
	last := min(float64(lastIntervals*t.Interval)*float64(limit.Millisecond), float64(t.Window)/6)
	if mine < 1 && unused-others < float64(t.Capacity)/grain && left > last {
		return t.Capacity
	}
	return int64(others)
}

// fill is the level up to which so many units lift those that claim more than they have, the
// lowest first; infinite if there is enough for all.
func fill(units float64, regions []region, claims func(*region) (has, claim float64)) float64 {
	lifted := func(level float64) (sum, top float64) {
		for i := range regions {
			has, claim := claims(&regions[i])
			sum += max(0, min(claim, level)-has)
			top = max(top, claim)
		}
		return sum, top
	}
	sum, high := lifted(math.Inf(1))
	if sum <= units {
		return math.Inf(1)
	}
	low := 0.0
	for range 40 { // to a trillionth of the largest claim
		middle := (low + high) / 2
		if sum, _ := lifted(middle); sum > units {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}
