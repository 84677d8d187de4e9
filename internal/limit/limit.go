// Package limit holds the rate limiting algorithms as pure functions.
//
// Every decision is a function of a [State], a time and an [Ask]; it returns the
// next state and a [Decision] and touches nothing else. Time is an argument: the
// package reads no clock, starts no goroutine and allocates nothing on a decision
// (the sliding log grows its log). A [Limit] is immutable and safe for concurrent
// use; the owner of a [State] guards it.
//
// # Arithmetic
//
// Everything is an integer whose magnitude stays below 2^53, intermediate results
// included, so that the Lua scripts which mirror these functions on Redis, where
// every number is a double, agree with them to the last unit. Sums, differences
// and products of such integers are exact in doubles. So is a floor of a quotient
// of two of them: for 0 <= a < 2^53 and b >= 1 the quotient nearest below an
// integer k is k-1/b, and it would be rounded up to k only if 1/b were less than
// half the spacing of doubles below k, which is at most k/2^53: only if k*b > 2^54.
//
// # Clocks
//
// A clock that steps back must not hand units out twice. A counter never goes
// back in time: where now is before its latest time, it decides for that
// time. When it is ahead by more than one period, a clock was wrong, and waiting
// for now to catch up would freeze the limit; then it moves to now, and whatever
// was charged stays charged as if it had just been. All durations in a [Decision]
// count from the now that the caller gave, since it is that clock which has to
// reach the end of a window.
package limit

// Micros is a time or a duration in microseconds. As a time it counts from 1970
// on the clock of whoever keeps the count; a legal time is greater than zero and
// before the year 2252 (others are taken for the nearest legal one).
type Micros int64

// Durations in microseconds.
const (
	Millisecond Micros = 1_000
	Second      Micros = 1_000_000
	Minute      Micros = 60 * Second
	Hour        Micros = 60 * Minute
	Day         Micros = 24 * Hour
)

// MaxPeriod is the longest period of a limit.
const MaxPeriod = 366 * Day

// DefaultLeaseTTL is the LeaseTTL of a [Spec] that states none.
const DefaultLeaseTTL = 10 * Second

// Never is the RetryAfter of an ask for which waiting does not help: it needs more than
// the limit can ever hold, or would wait for more than 142 years (2^52 µs).
const Never Micros = 1<<53 - 1

// MaxCount bounds a limit's count and burst, and thus every number of units: a
// lease has to fit into 32 bits at the edge.
const MaxCount int64 = 1<<32 - 1

// MaxSlots bounds the count of a Concurrency limit: a store keeps every holding,
// and the units of one have to fit into its record.
const MaxSlots int64 = 1<<24 - 1

// MaxHoldings is from how many holdings of a key on no further request gets slots by name: each
// decision reads all of them. With 1,000 that takes Redis 0.15 to 0.4 ms, with 20,000 it is 8 ms, and the
// other keys of the node run into their timeouts.
const MaxHoldings = 1000

// Algorithm is how units are counted. The zero value is TokenBucket.
type Algorithm uint8

// The algorithms.
const (
	TokenBucket   Algorithm = iota // refills evenly; a new one is full
	FixedWindow                    // so many per window
	SlidingWindow                  // two counters, the older one fades
	SlidingLog                     // every charge remembered: exact in any trailing window
	Concurrency                    // slots held and released, not units spent; see [Slots]
)

var algorithmWords = [...]string{TokenBucket: "token_bucket", FixedWindow: "fixed_window", SlidingWindow: "sliding_window",
	SlidingLog: "sliding_log", Concurrency: "concurrency", Concurrency + 1: "unknown"}

// String returns the word of the rule language.
func (a Algorithm) String() string { return algorithmWords[min(a, Concurrency+1)] }

// Align is when a fixed window begins. The zero value is AlignClock.
type Align uint8

// The alignments.
const (
	AlignClock        Align = iota // at multiples of the period since 1970 (UTC)
	AlignFirstRequest              // with the first charge after the last window ended, to the microsecond
)

var alignWords = [...]string{AlignClock: "clock", AlignFirstRequest: "first_request", AlignFirstRequest + 1: "unknown"}

// String returns the word of the rule language.
func (a Align) String() string { return alignWords[min(a, AlignFirstRequest+1)] }

// Spec is a limit as a rule states it. [New] checks it and derives what the
// decisions need.
type Spec struct {
	Algorithm Algorithm
	// Count is how many units a Period admits, or how many slots exist; 0 to
	// MaxCount, for Concurrency to MaxSlots. Zero denies everything. For TokenBucket and SlidingWindow the
	// product of count (or burst) and period is bounded as well, see [New].
	Count int64
	// Period is 1 ms to MaxPeriod in whole milliseconds; ignored by Concurrency.
	Period Micros
	// Burst is the capacity of a token bucket, 1 to MaxCount; 0 means Count.
	// Only for TokenBucket, and only with a Count above 0.
	Burst int64
	// Align is for FixedWindow only.
	Align Align
	// Calendar, if not nil, makes windows those of a calendar, and Period their nominal length. Only for FixedWindow
	// with AlignClock. It must not be changed.
	Calendar *Calendar
	// MinInterval is the least time between two charges, 0 to Period. Only for
	// SlidingLog; such a limit grants one need at a time, never ahead.
	MinInterval Micros
	// ChargeRejected makes a denied need count all the same (a penalty). What is
	// charged beyond the limit never exceeds the limit once more. Not for
	// Concurrency.
	ChargeRejected bool
	// Block, if greater than 0, is how long a key is denied that needs more when its limit is used up, see [Lockout]; at
	// most MaxBlock. Not for Concurrency, and not with MinInterval.
	Block Micros
	// Reserves is true if what is granted is a reservation until a response settles it. Only with Block it matters, and
	// not for a SlidingLog.
	Reserves bool
	// Kept is units of the limit that Count and Burst lack because they are kept for others; a denial for want of these
	// begins no block.
	Kept int64
	// LeaseTTL is how long units granted ahead may stay out while at least half
	// of the limit is left (less than that: at most 1 s), 1 ms to 1 day; a sliding
	// log cuts it to a fiftieth of its period. For Concurrency it is how long a
	// holding lasts unrenewed. 0 means DefaultLeaseTTL.
	LeaseTTL Micros
}

// Ask is what a holder asks of a counter, in units. 0 <= Need <= Waiting <= Want
// <= MaxCount; what is out of order is raised or cut to the nearest legal value.
// The zero value asks for nothing and reports what is left.
type Ask struct {
	Need    int64 // of the first request that waits: granted whole or not at all; 0: nobody waits
	Waiting int64 // of all requests that wait
	Want    int64 // what the holder would like
	// Askers is among how many holders the rest of a window is shared: what is
	// asked ahead of Waiting gets at most remaining/(2*Askers). 0 counts as 1.
	// Token buckets ignore it: they refill.
	Askers int64
	// Withheld is units that are kept for others: they are not there for this ask.
	Withheld int64
	// Lead, if greater than 0, asks for the next window when that begins within
	// Lead. Only FixedWindow with AlignClock uses it, and only when Need is 0.
	Lead Micros
}

// Decision is the answer to an [Ask]. A denial is a decision, not an error.
type Decision struct {
	// Granted is 0, or Need <= Granted <= Want: min(Want, remaining, max(Waiting, share)).
	Granted int64
	// Remaining is what a further need could get now, never negative.
	Remaining int64
	// Period is what the grant was charged to, and goes back with what is unused:
	// the window's start, the log entry's time, 0 for a token bucket. Zero with
	// Granted 0.
	Period Micros
	// StartsIn is 0, or how long until units of the next window may be spent.
	StartsIn Micros
	// TTL is for how long units beyond Waiting may be spent, from now. It never
	// reaches past the window that was charged. Zero with Granted 0.
	TTL Micros
	// RetryAfter is 0 when Need was granted, else the least wait after which the
	// same need would be granted if nobody else asked; [Never] if none would do.
	// It is exact to the microsecond for the state that came with the decision.
	RetryAfter Micros
	// Reset is how long until the counter is as good as new if nobody asks: the
	// last charged window over, the bucket full, the last log entry gone. Zero
	// exactly if [Limit.Fresh]; [Never] for a bucket that takes longer than that.
	Reset Micros
	// Block is of a limit with Block.
	Block Block
}

// PerSecond is how many units a second a limit of this spec lets pass in the long run, for people to read; 0: that is not a
// matter of time.
func (s Spec) PerSecond() float64 {
	if s.Algorithm == Concurrency || s.Period <= 0 {
		return 0
	}
	return float64(s.Count) * float64(Second) / float64(s.Period)
}

// Bit is 1 for true and 0 for false, as records and scripts have it.
func Bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
