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

// Consistency is what happens to a request that finds no units on lease. The zero value
// is Leased.
type Consistency uint8

// The consistencies.
const (
	Leased     Consistency = iota // it waits for the answer; later ones find a lease
	Exact                         // every request asks; only denials are kept
	Optimistic                    // it is admitted before the answer, up to Overdraft
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

// OnFailure is what a rule decides when the tier above does not answer in time. The zero
// value is FailureAllow.
type OnFailure uint8

// The answers to a failure.
const (
	FailureAllow OnFailure = iota // admit, and report it later as overdrawn
	FailureDeny                   // refuse
	FailureLocal                  // admit up to this holder's share of the limit
)

var onFailureWords = [...]string{"allow", "deny", "local", "unknown"}

// String returns the word of the rule language.
func (f OnFailure) String() string { return onFailureWords[min(f, FailureLocal+1)] }

// Terms are what both sides of a lease need of a limit beside its state.
// They are derived from the rule ([NewTerms]) and never change.
type Terms struct {
	Consistency Consistency
	// Interval is the lease interval: how often a saturated holder asks, and the
	// span within which askers are counted. At least 10.
	Interval Millis
	// Timeout is the longest that a request waits for an answer. At least 1.
	Timeout Millis
	// Far is true where the tier that counts is in another region, see [Terms.Afar].
	Far bool
	// Overdraft is how many units an Optimistic holder admits per key ahead of
	// the answer.
	Overdraft int64
	// Capacity is the most that the limit can ever hold: the burst of a token
	// bucket, the count otherwise.
	Capacity int64
	// Refills is true for a token bucket, whose rest need not be rationed.
	Refills bool
	// ChargesDenied is true where refused requests count too, see [holder.State.Deny].
	ChargesDenied bool
	// Unit is how many milliseconds bring a unit of a token bucket; 0 for others.
	Unit float64
	// Trailing is true for a sliding log. It counts a grant of no more than what waits from
	// the moment of the grant, so what nobody spends at once must not be spent later.
	Trailing bool
	// Window is the length of a fixed window, 0 for other algorithms. Of a calendar it is that of the longest, about.
	Window limit.Micros
	// Lead is how long before the end of its window a holder asks for the next
	// one; 0 where windows have no known next one.
	Lead Millis
	// Pace is how long a near holder pauses after an ask that got less than it wanted because
	// next to nothing is left, where units trickle back: a lease interval for a token bucket,
	// which saves them up; at most a hundredth of a sliding window or log, where what nobody
	// asks for in time is lost. 0 for fixed windows, where nothing comes back. A far relay
	// pauses by its distance instead.
	Pace Millis
	// Ample is how many units must be left above for a request that fits into them not to
	// wait for Pace: what trickles back in four times Pace. On the way down to a limit it is
	// worth to ask for half of what is left again and again; below Ample it is not.
	Ample int64
	// afterDenial is the least time from a denial to the next ask where units trickle back
	// faster than one in a lease interval: that interval, or half of the time that refills
	// the whole limit if that is shorter. 0 where the next unit comes later, at a known
	// time.
	AfterDenial Millis
	// LongestTTL bounds a lease on a token bucket; 0: nothing to bound. It keeps what is out
	// on lease within what the bucket holds. Whatever is on lease at a time was granted
	// within one ttl before it; in that time a bucket grants at most its burst and what
	// refilled it. So if the refill within a ttl is at most the burst, then credit and
	// leases together never pass twice the burst, and in any time t at most
	// 2*burst + rate*t is admitted. A lease shorter than 1 s would be over before a distant
	// holder could use it: of a bucket that refills faster, the refill of one second may be
	// out on lease.
	LongestTTL Millis
}

// NewTerms derives the terms of l. A zero interval or timeout is 100 ms, a zero overdraft
// one unit.
func NewTerms(l *limit.Limit, c Consistency, interval, timeout Millis, overdraft int64) Terms {
	s := l.Spec()
	t := Terms{
		Consistency: c, Interval: interval, Timeout: timeout, Overdraft: overdraft,
		Capacity: s.Count, ChargesDenied: s.ChargeDenied, Trailing: s.Algorithm == limit.SlidingLog,
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

// LongestTrip is how long an ask and its answer may travel between regions, so that leases of
// the next window are there in time.
const LongestTrip Millis = 500

// longestLead is how long before the end of a window a far holder asks for the next one at most. Earlier than twice as long
// before, the parts of regions are still withheld from each other in a window that none of them has renounced yet, see
// package reserve.
const longestLead Millis = 1000

// Afar is t for a limit that several regions share. The first ask for a key asks for as much
// as any ask may, and leases of the next window are asked for earlier.
func (t Terms) Afar() Terms {
	t.Far, t.Ample = true, max(t.Ample, t.WantFloor())
	if t.Lead > 0 {
		t.Lead = min(t.Lead+min(t.Timeout, LongestTrip), Millis(t.Window/limit.Millisecond)/4, longestLead)
	}
	return t
}

// WantFloor is what a holder may always want, however little it used lately: a
// thirty-second of the limit. Without it most requests of a slow key would wait.
func (t *Terms) WantFloor() int64 { return max(t.Capacity/32, 1) }
