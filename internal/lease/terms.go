package lease

import (
	"github.com/weirlimit/weir/internal/limit"
)

// Millis is a time or a duration in milliseconds. As a time it is read from the
// holder's own monotonic clock and is greater than zero.
type Millis int64

// Percent is a factor in hundredths, such as that which varies a pause.
type Percent int64

// Of returns that part of d, rounded down.
func (p Percent) Of(d Millis) Millis { return d * Millis(p) / 100 }

// Consistency decides what happens to a request for which the holder has no units. The zero value is Leased.
type Consistency uint8

// The consistencies.
const (
	Leased     Consistency = iota // it waits for the reply; later requests find a lease
	Exact                         // every request asks; the holder keeps denials and no units
	Optimistic                    // it is admitted before the reply, up to Overdraft
)

var consistencyWords = [...]string{"leased", "exact", "optimistic", "unknown"}

// String returns the word of the rule language.
func (c Consistency) String() string { return consistencyWords[min(c, Optimistic+1)] }

// Few reports whether s is a limit of few units, which is Exact unless its rule states a consistency: units on lease
// that a PoP does not use are a large part of such a limit, and other PoPs reject requests meanwhile. Leases would save
// next to no calls. Nearly all are of one unit ([Terms.WantFloor]), or end before a client sends the next request.
//
// far is true if regions share the limit. Then more holders, and replicas that keep units for the time of a round trip,
// have units on lease. It is false for a limit of 0 and for limit.Concurrency, of which nothing is leased for a period.
func Few(s limit.Spec, far bool) bool {
	units := max(s.Count, s.Burst)
	if s.Algorithm == limit.Concurrency || s.Count == 0 {
		return false
	}
	return units <= 50 || far && units <= 250 && s.Period >= limit.Minute
}

// OnFailure decides requests that the granter does not answer in time. The zero value is FailureAllow.
type OnFailure uint8

// The answers to a failure.
const (
	FailureAllow OnFailure = iota // admit, and report it later as overdrawn
	FailureDeny                   // reject
	FailureLocal                  // admit up to this holder's share of the limit
)

var onFailureWords = [...]string{"allow", "deny", "local", "unknown"}

// String returns the word of the rule language.
func (f OnFailure) String() string { return onFailureWords[min(f, FailureLocal+1)] }

// Terms are the parameters of a limit for both sides of a lease. They are derived from the rule ([NewTerms]) and never change.
type Terms struct {
	Consistency Consistency
	// Interval is the lease interval: the time between two asks of a saturated holder, and the time in which askers are
	// counted. At least 10.
	Interval Millis
	// Timeout is the longest time that a request waits for a reply. At least 1.
	Timeout Millis
	// Aggregator is true if the granter is the aggregator, which is in another region. See [Terms.ForAggregator].
	Aggregator bool
	// Overdraft is how many units an Optimistic holder admits per key before the reply.
	Overdraft int64
	// Capacity is the most units that the limit can hold: the burst of a token bucket, the count otherwise.
	Capacity int64
	// Refills is true for a token bucket, whose units need not be divided among askers.
	Refills bool
	// ChargesRejected is true if rejected requests are charged, see [holder.State.Deny].
	ChargesRejected bool
	// Unit is after how many milliseconds a token bucket gains a unit; 0 for other algorithms.
	Unit float64
	// Reserves is true if units are reserved until a response settles them. They may come back at any time, so a denial says
	// better than the state of the counter when to retry.
	Reserves bool
	// Trailing is true for a sliding log, see [Terms.SpentAtOnce].
	Trailing bool
	// Window is the length of a fixed window; 0 for other algorithms. For a calendar it is about that of the longest window.
	Window limit.Micros
	// Lead is how long before the end of a window a holder asks for the next one; 0 if the next window is not known.
	Lead Millis
	// Pace is how long a near holder pauses after a partial grant if units trickle back. For a token bucket, which saves
	// units, it is a lease interval. For a sliding window or log, which loses units that are not asked for in time, it is at
	// most a hundredth of the period. For fixed windows it is 0. A cross-region relay pauses by its distance instead.
	Pace Millis
	// Ample is how many units must be left at the granter for a holder to ask within Pace: the units that trickle back in
	// four times Pace. Above Ample it is worth a call to ask for half of the rest again and again.
	Ample int64
	// AfterDenial is the shortest time from a denial to the next ask if units trickle back faster than one per lease
	// interval: that interval, or half of the time that refills the whole limit if that is shorter. Otherwise it is 0.
	AfterDenial Millis
	// LongestTTL bounds a lease of a token bucket; 0: no bound. All units on lease were granted within one ttl, in which a
	// bucket grants at most its burst and its refill. If the refill within a ttl is at most the burst, then tokens and leases
	// together are at most twice the burst, and in any time t at most 2*burst + rate*t units are admitted. LongestTTL is at
	// least 1 s, because a shorter lease would end before a distant holder could use it. A bucket that refills faster may
	// have the refill of one second on lease.
	LongestTTL Millis
}

// NewTerms derives the terms of l. A zero interval or timeout is 100 ms, a zero overdraft
// one unit.
func NewTerms(l *limit.Limit, c Consistency, interval, timeout Millis, overdraft int64) Terms {
	s := l.Spec()
	t := Terms{
		Consistency: c, Interval: interval, Timeout: timeout, Overdraft: overdraft,
		Capacity: s.Count, ChargesRejected: s.ChargeRejected, Trailing: s.Algorithm == limit.SlidingLog, Reserves: s.Reserves,
	}
	if t.Interval <= 0 {
		t.Interval = 100
	}
	if t.Timeout <= 0 {
		t.Timeout = 100
	}
	if c == Optimistic && t.Overdraft <= 0 {
		t.Overdraft = 1
	}
	period := Millis(s.Period / limit.Millisecond)
	refill := period // how long until a limit that is used up is whole again
	switch s.Algorithm {
	case limit.FixedWindow:
		if t.Window = s.Period; s.Calendar != nil {
			t.Window += s.Period / 10
		}
		if s.Align == limit.AlignClock && c != Exact {
			t.Lead = min(2*t.Interval, period/4)
		}
		return t
	case limit.TokenBucket:
		t.Capacity, t.Refills = s.Burst, true
		if s.Count > 0 {
			t.Unit = float64(period) / float64(s.Count)
			refill = Millis(min(float64(period)*float64(s.Burst)/float64(s.Count), float64(Never)))
		}
		t.LongestTTL = max(Millis(limit.Second/limit.Millisecond), refill)
		t.Pace = t.Interval
	default:
		t.Pace = min(t.Interval, max(period/100, 1))
	}
	t.Ample = int64(4 * float64(t.Pace) * float64(s.Count) / float64(max(period, 1)))
	if s.MinInterval == 0 && period/Millis(max(s.Count, 1)) < t.Interval {
		t.AfterDenial = min(t.Interval, refill/2)
	}
	return t
}

// LongestTrip is the longest round trip between regions with which leases of the next window arrive in time.
const LongestTrip Millis = 500

// longestLead is how long before the end of a window a far holder asks for the next one at most. Earlier than twice that, no
// region has renounced its reserve of the next window, so the aggregator withholds it, see package reserve.
const longestLead Millis = 1000

// ForAggregator is t for a limit that regions share. The first ask for a key wants as much as later ones, and leases of the
// next window are asked for earlier.
func (t Terms) ForAggregator() Terms {
	t.Aggregator, t.Ample = true, max(t.Ample, t.WantFloor())
	if t.Lead > 0 {
		t.Lead = min(t.Lead+min(t.Timeout, LongestTrip), Millis(t.Window/limit.Millisecond)/4, longestLead)
	}
	return t
}

// WantFloor is how many units a holder may want, even if it used fewer: a thirty-second of the limit. Without it most requests
// of a slow key would wait.
func (t *Terms) WantFloor() int64 { return max(t.Capacity/32, 1) }
