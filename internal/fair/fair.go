// Package fair divides a limit among the regions that ask for it.
//
// A counter grants to the first asks. If a shared limit is too small for all regions, regions with many early asks would get
// most of a window, and each ask the same part of a token bucket, whatever the demand. [Shares] estimates the demand of each
// region for a key. For each ask it computes how many of the units left are for the other regions, and withholds these
// ([lease.Want.Withheld]). The counter alone decides how many units there are, so a wrong estimate never exceeds the limit.
//
// The package is pure: no clock, no lock, no goroutine. It computes in floating point, because no other program must get the
// same result.
package fair

import (
	"math"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// maxRegions bounds the regions that are distinguished for a key. Nothing is withheld for
	// those beyond it.
	maxRegions = 64
	// A demand is averaged over a tenth of the time that fills the limit, and at least over
	// this: long enough that one lease more or less matters little, and short enough that a
	// flood is noticed early in a window.
	shortest = 2 * limit.Second
	// headroom is how much more is kept for a region than it demands, so that it has a lease
	// at hand when it needs one. What it does not take is for the others.
	headroom = 1.25
	// heldIntervals is for how many lease intervals a region has leases where it gets those of the next
	// window in time: what it will demand in that time, at most two thirds of what the window lasts, is
	// not kept for it once more. Else nobody would get that at the end of a window. A region that has
	// fewer leases loses some hundredths of its demand by it, beside a flood.
	heldIntervals = 4
	// grain is the least part of a window, as a divisor, that a region above its level gets
	// of what others did not want after all: otherwise it would get a few units with each
	// ask, and its requests would wait for every one of them.
	grain = 64
	// lastIntervals is how many lease intervals before its end a window's rest goes to whoever
	// asks, but not before its last sixth: the others hold or claim nearly all that they will need,
	// and soon it is worth nothing.
	lastIntervals = 15
	// faded is the part of what comes back that the demand still counts: it was granted a
	// while ago. Without it a region that gives back would look as if it wanted nothing.
	faded = 0.5
	// late is how much earlier than the last ask a next one may be: who gets the lock first may have read
	// the clock last. One that is even earlier shows a clock that was set back.
	late = limit.Second
	// mostEqual bounds a demand of a window with equal parts, in limits of a window: more changes no part, and takes
	// long to fade when a flood has ended.
	mostEqual = 2
	// mostDemand bounds a demand, in limits: what one caller reports in a moment must not
	// count for long.
	mostDemand = 16
)

// Shares is what is kept of the regions that ask for one key. The zero value has none.
// It is not safe for concurrent use.
type Shares struct {
	regions []region
	at      limit.Micros // when demands and credits were brought up to date
	window  uint32       // the lease of the running window
	former  uint32       // that of the one before
	ends    limit.Micros // when the running one ends; 0: none is known
	debts   int64        // the period to which what regions owe belongs
	lives   limit.Micros // until then the counter is not as good as new
}

// region is what is kept of one region.
type region struct {
	id     uint64
	demand float64 // units demanded; they fade, see [Shares.advance]
	part   float64 // of a token bucket: units per microsecond that it may have
	credit float64 // of a token bucket: units that came in for it and that it has not taken; < 0: it owes as much
	used   float64 // units of the running window that it has, or of a token bucket
	ahead  float64 // of the next window
	before float64 // of the one before, where that still counts
	// Units that it admitted without a lease, in this period and in the one before.
	owed, owedBefore int64
}

// Ask notes what the want w of a region reports, cuts that to what can be true for a region of
// which part is its part of the limit, sets how many units are withheld from w, and may lower what
// w asks for ahead of its requests. now is the granter's clock; it may
// step. With equal, no region gets more than an equal part while another gets less than it
// demands (max-min); without, each gets units in proportion to its demand, as one exact
// limiter would give them. Limits that are neither fixed windows nor token buckets are not
// divided.
func (s *Shares) Ask(l *limit.Limit, t *lease.Terms, equal bool, now limit.Micros, id uint64, part int64, w *lease.Want) Dropped {
	if now < s.at && s.at-now < late {
		now = s.at
	}
	s.advance(l, t, now)
	r := s.region(id)
	d := s.settle(l, t, r, part, w)
	if r != nil {
		r.demands(t, float64(w.Denied+w.Overdrawn)-faded*float64(w.Unused))
	}
	d.Penalty = s.penalize(l, r, part, w)
	if equal && t.Window > 0 {
		s.forgetFloods(l, t)
	}
	w.Withheld = s.withheld(l, t, equal, now, id, part, w)
	return d
}

// withheld is how many units are meant for regions other than the one that asks.
func (s *Shares) withheld(l *limit.Limit, t *lease.Terms, equal bool, now limit.Micros, id uint64, part int64, w *lease.Want) int64 {
	r := s.region(id)
	if len(s.regions) < 2 && r != nil {
		return 0
	}
	switch {
	case t.Refills:
		s.divideRate(l, equal, spanOf(l, t))
		return s.credits(t, id, part)
	case t.Window > 0 && equal:
		return s.planned(l, t, now, id, w)
	case t.Window > 0 && r != nil && t.Consistency != lease.Exact:
		s.limitAhead(l, t, now, r, w)
	}
	return 0
}

// Granted notes the answer to an ask.
func (s *Shares) Granted(l *limit.Limit, t *lease.Terms, now limit.Micros, id uint64, w *lease.Want, g *lease.Grant) {
	r, decided := s.region(id), g.Status == lease.OK || g.Status == lease.Denied
	if r != nil && l.ChargesRejected() && g.Status != lease.Denied {
		r.owed = max(0, r.owed-w.Need) // which [Shares.penalize] has noted
	}
	if decided {
		s.lives = max(s.lives, now+min(limit.Micros(g.Reset)*limit.Millisecond, limit.MaxPeriod))
	}
	if r == nil || !decided {
		return
	}
	units := float64(g.Granted)
	r.demands(t, max(units, float64(w.Waiting)))
	switch {
	case t.Refills:
		r.credit = max(min(r.credit, 0), r.credit-units)
		r.used = min(r.used+units, 2*float64(t.Capacity)) // no more can be out, see [granter.Counter]
	case g.Granted > 0:
		s.count(l, now, r, g)
	}
}

// count counts a grant in the window of its lease. The shares may begin a window a little before the counter
// does, or after it, and a grant that is late may be of the window before: it changes nothing any more. Where the
// counter's clock is far off no window has such a lease; then the grant's start shows which one is meant.
func (s *Shares) count(l *limit.Limit, now limit.Micros, r *region, g *lease.Grant) {
	ahead, byClock := g.StartsIn > 0, l.Spec().Align == limit.AlignClock
	switch {
	case g.Lease == s.window, l.Spec().Algorithm == limit.SlidingLog:
		ahead = false
	case byClock && g.Lease == l.PeriodID(s.ends):
		ahead = true
	case g.Lease == s.former:
		return
	case !byClock:
		s.begin(g.Lease, now+limit.Micros(g.Reset)*limit.Millisecond, false)
	}
	if ahead {
		r.ahead += float64(g.Granted)
	} else {
		r.used += float64(g.Granted)
	}
}

// Bytes is how much memory the shares take beside themselves.
func (s *Shares) Bytes() int { return cap(s.regions) * int(unsafe.Sizeof(region{})) }

// Fresh reports that the counter is as good as new: nothing can come back, and nothing is owed.
func (s *Shares) Fresh(now limit.Micros) bool { return now >= s.lives }

// Idle reports that nothing is left to remember: the counter is fresh, and what regions
// demanded has faded.
func (s *Shares) Idle(l *limit.Limit, t *lease.Terms, now limit.Micros) bool {
	most := 0.0
	for i := range s.regions {
		most = max(most, s.regions[i].demand)
	}
	return s.Fresh(now) && most*s.kept(l, t, now) < 1
}

// demands notes that a region demanded so many units more.
func (r *region) demands(t *lease.Terms, units float64) {
	r.demand = min(max(0, r.demand+units), mostDemand*float64(t.Capacity))
}

// forgetFloods bounds the demands of a window that is divided in equal parts.
func (s *Shares) forgetFloods(l *limit.Limit, t *lease.Terms) {
	most := mostEqual * float64(t.Capacity) * float64(spanOf(l, t)) / float64(t.Window)
	for i := range s.regions {
		s.regions[i].demand = min(s.regions[i].demand, most)
	}
}

// region finds what is kept of a region, or begins to; nil if there are too many.
func (s *Shares) region(id uint64) *region {
	for i := range s.regions {
		if s.regions[i].id == id {
			return &s.regions[i]
		}
	}
	if len(s.regions) >= maxRegions {
		return nil
	}
	s.regions = append(s.regions, region{id: id})
	return &s.regions[len(s.regions)-1]
}

// advance lets the time pass until now: demands fade, credits come in, windows change.
func (s *Shares) advance(l *limit.Limit, t *lease.Terms, now limit.Micros) {
	passed, kept := float64(max(now-s.at, 0)), s.kept(l, t, now)
	for i := range s.regions {
		r := &s.regions[i]
		r.demand *= kept
		r.credit = min(r.credit+r.part*passed, r.largestCredit(l))
	}
	s.at = now
	s.forgetDebts(l, t, now)
	if t.Refills {
		return
	}
	if l.Spec().Align == limit.AlignFirstRequest {
		if now < s.ends-l.Spec().Period || now >= s.ends {
			s.begin(0, 0, false)
		}
		return
	}
	if start, ends := l.WindowAt(now); ends != s.ends {
		s.begin(l.PeriodID(start), ends, start == s.ends)
	}
}

// kept is the part of a demand that has not faded since it was brought up to date.
func (s *Shares) kept(l *limit.Limit, t *lease.Terms, now limit.Micros) float64 {
	return math.Exp(-float64(max(now-s.at, 0)) / float64(spanOf(l, t)))
}

// begin begins a window. What regions have of the next one is of this one only if it follows.
func (s *Shares) begin(window uint32, ends limit.Micros, follows bool) {
	for i := range s.regions {
		r := &s.regions[i]
		if follows {
			r.before, r.used, r.ahead = r.used, r.ahead, 0
		} else {
			r.before, r.used, r.ahead = 0, 0, 0
		}
	}
	s.former, s.window, s.ends = s.window, window, ends
}

// isAhead reports whether a want is for the next window.
func (s *Shares) isAhead(t *lease.Terms, now limit.Micros, w *lease.Want) bool {
	return w.Next && w.Need == 0 && s.ends-now <= limit.Micros(t.Lead+t.Interval)*limit.Millisecond
}
