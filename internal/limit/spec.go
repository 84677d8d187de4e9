package limit

import "strconv"

// maxExact is the first magnitude that no integer here may reach: beyond it a
// double no longer holds every integer.
const maxExact = 1 << 53

// Limit is a checked [Spec] with what its decisions need worked out beforehand.
// It is immutable and safe for concurrent use. Only [New] makes a usable one.
type Limit struct {
	spec     Spec
	capacity int64   // units that a new counter holds: Burst for a token bucket, else Count
	ttlLong  Micros  // of units granted ahead while half of capacity is left
	ttlShort Micros  // of units granted ahead otherwise
	print    uint32  // see Fingerprint
	windows  Windows // of a calendar that is known here

	bucket bucket // for TokenBucket
	fade   fade   // for SlidingWindow
}

// SpecError is what is wrong with one field of a [Spec], and what to write instead.
type SpecError struct {
	Field  string // as in Spec, in lower case: "count", "period", "min_interval", ...
	Reason string // the value, the allowed range, what to change
}

func (e *SpecError) Error() string { return "limit: " + e.Field + " " + e.Reason }

// New checks a spec and works out its limit. The error is a *[SpecError].
//
// Beyond the ranges stated at the fields of [Spec], the arithmetic demands that
// 2*burst*period + count (token bucket, after division by the greatest common
// divisor of count and period) or (2*count+1)*period (sliding window) stays below
// 2^53, where period is counted in the finest of µs, ms and s for which it does
// and of which the period is a whole number.
// In microseconds that is 75 million units a minute, in milliseconds 52 million a
// day, in seconds 142 million in 366 days.
func New(s Spec) (*Limit, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	largest := "burst" // the field to lower when the arithmetic does not hold
	if s.Burst == 0 {
		largest = "count"
	}
	s = s.WithDefaults()
	l := &Limit{spec: s, capacity: s.Count, ttlLong: s.LeaseTTL, ttlShort: min(s.LeaseTTL, Second), print: s.fingerprint()}
	if s.Calendar != nil {
		l.windows = s.Calendar.Windows
	}
	var fits bool
	switch s.Algorithm {
	case TokenBucket:
		l.capacity = s.Burst
		if l.bucket, fits = newBucket(s); !fits {
			return nil, tooLarge(largest, s.Burst)
		}
	case SlidingWindow:
		if l.fade, fits = newFade(s); !fits {
			return nil, tooLarge(largest, s.Count)
		}
	case SlidingLog:
		l.ttlLong = min(l.ttlLong, s.Period/50)
		l.ttlShort = min(l.ttlShort, s.Period/50)
	}
	return l, nil
}

// Spec returns the spec with defaults filled in.
func (l *Limit) Spec() Spec { return l.spec }

// Concurrent reports whether the limit counts slots in use, not units spent.
func (l *Limit) Concurrent() bool { return l.spec.Algorithm == Concurrency }

// ChargesRejected reports whether rejected requests count too, see Spec.ChargeRejected.
func (l *Limit) ChargesRejected() bool { return l.spec.ChargeRejected }

// Shape is what makes the counters of an old and a new version of a rule
// comparable, in one number below 2^39: period in ms, algorithm, align. Count and
// burst do not enter, a changed count goes on with the same counters. Instead of the period a calendar has a
// number that no period is: a hash of its words, of 31 bits.
func (l *Limit) Shape() uint64 {
	period := uint64(l.spec.Period / Millisecond)
	if l.spec.Calendar != nil {
		period = 1<<35 - 1<<31 + uint64(l.print&(1<<31-1))
	}
	return period<<4 | uint64(l.spec.Algorithm)<<1 | uint64(l.spec.Align)
}

// Fingerprint is a hash of the shape that is short enough for a lease. Limits of different
// shapes with the same fingerprint would take back each other's units, but never more than
// they have on lease themselves.
func (l *Limit) Fingerprint() uint32 { return l.print }

// WithDefaults returns the spec with its defaults filled in.
func (s Spec) WithDefaults() Spec {
	if s.Burst == 0 && s.Algorithm == TokenBucket {
		s.Burst = s.Count
	}
	if s.LeaseTTL == 0 {
		s.LeaseTTL = DefaultLeaseTTL
	}
	if s.Algorithm == Concurrency {
		s.Period = 0
	}
	return s
}

// fingerprint is FNV-1a, 32 bits, over the algorithm, the align and the period's eight
// bytes, lowest first, and the words of a calendar.
func (s Spec) fingerprint() uint32 {
	const offset, prime = 2166136261, 16777619
	h := (uint32(offset) ^ uint32(s.Algorithm)) * prime
	h = (h ^ uint32(s.Align)) * prime
	p := uint64(s.Period)
	for range 8 {
		h = (h ^ uint32(p&0xff)) * prime
		p >>= 8
	}
	if c := s.Calendar; c != nil {
		h = ((h^uint32(c.Per))*prime ^ uint32(c.Anchor)) * prime
		for i := range len(c.Zone) {
			h = (h ^ uint32(c.Zone[i])) * prime
		}
	}
	return h
}

func (s Spec) check() error {
	switch {
	case s.Algorithm > Concurrency:
		return bad("algorithm", itoa(s.Algorithm)+" is unknown: use token_bucket, fixed_window, sliding_window, sliding_log or concurrency")
	case s.Count < 0 || s.Count > MaxCount:
		return bad("count", "is "+itoa(s.Count)+": write 0 (deny everything) to "+itoa(MaxCount))
	case s.Algorithm == Concurrency && s.Count > MaxSlots:
		return bad("count", "is "+itoa(s.Count)+" slots: write 0 (deny everything) to "+itoa(MaxSlots))
	case s.LeaseTTL != 0 && (s.LeaseTTL < Millisecond || s.LeaseTTL > Day):
		return bad("lease_ttl", "is "+itoa(s.LeaseTTL)+" µs: write 1 ms to 1 day, or leave it out for 10 s")
	case s.Block < 0 || s.Block > MaxBlock:
		return bad("block", "is "+itoa(s.Block)+" µs: write 1 ms to 366 days")
	}
	if err := s.checkPeriod(); err != nil {
		return err
	}
	if err := s.checkCalendar(); err != nil {
		return err
	}
	return s.checkOnlyFor()
}

func (s Spec) checkPeriod() error {
	switch {
	case s.Algorithm == Concurrency:
		return nil
	case s.Period < Millisecond || s.Period > MaxPeriod:
		return bad("period", "is "+itoa(s.Period)+" µs: write 1 ms to 366 days")
	case s.Period%Millisecond != 0:
		return bad("period", "is "+itoa(s.Period)+" µs: write whole milliseconds")
	}
	return nil
}

func (s Spec) checkCalendar() error {
	c := s.Calendar
	if c == nil {
		return nil
	}
	most := [...]uint8{PerDay: 0, PerWeek: 7, PerMonth: 31}[min(c.Per, PerMonth)]
	switch {
	case s.Algorithm != FixedWindow:
		return bad("calendar", "is a window of the calendar, only for fixed_window: write algorithm: fixed_window, or a period such as 30d")
	case s.Align != AlignClock:
		return bad("align", "first_request is not for windows of the calendar: leave it out, or write a period such as 30d")
	case c.Per > PerMonth || s.Period != c.Per.Period():
		return bad("calendar", "is unknown: write day, week or month")
	case c.Anchor > most || (c.Anchor == 0) != (most == 0):
		return bad("anchor", "is out of range: write 1 to "+itoa(most)+", or leave it out for day")
	case c.Zone == "" || len(c.Zone) > 64:
		return bad("zone", "has no name of 1 to 64 bytes: write one such as Europe/Berlin")
	}
	return nil
}

// checkOnlyFor rejects fields that the algorithm would silently ignore.
func (s Spec) checkOnlyFor() error {
	switch {
	case s.Burst != 0 && s.Algorithm != TokenBucket:
		return bad("burst", "is only for token_bucket: write algorithm: token_bucket, or leave it out")
	case s.Burst < 0 || s.Burst > MaxCount:
		return bad("burst", "is "+itoa(s.Burst)+": write 1 to "+itoa(MaxCount)+", or leave it out for the count")
	case s.Burst != 0 && s.Count == 0:
		return bad("burst", "needs a count above 0: a bucket that never refills is no limit; leave burst out to deny everything")
	case s.Align > AlignFirstRequest:
		return bad("align", itoa(s.Align)+" is unknown: use clock or first_request")
	case s.Align != AlignClock && s.Algorithm != FixedWindow:
		return bad("align", "is only for fixed_window: leave it out")
	case s.MinInterval != 0 && s.Algorithm != SlidingLog:
		return bad("min_interval", "is only for sliding_log: leave it out")
	case s.MinInterval < 0 || s.MinInterval > s.Period && s.Algorithm == SlidingLog:
		return bad("min_interval", "is "+itoa(s.MinInterval)+" µs: write 0 to the period, "+itoa(s.Period)+" µs")
	case s.Block > 0 && (s.Algorithm == Concurrency || s.MinInterval > 0):
		return bad("block", "is not for concurrency or min_interval, whose denials do not mean that the limit is used up: leave it out")
	case s.ChargeRejected && s.Algorithm == Concurrency:
		return bad("charge_rejected", "is not for concurrency: nothing is spent there; leave it out")
	}
	return nil
}

func bad(field, reason string) error { return &SpecError{Field: field, Reason: reason} }

func tooLarge(field string, value int64) error {
	return bad(field, "is "+itoa(value)+", too large for such a period to be counted exactly (twice "+field+
		" times period has to stay below 2^53, even in seconds): lower "+field+", shorten the period, or make the period whole seconds")
}

func itoa[T ~int64 | ~uint8](n T) string { return strconv.FormatInt(int64(n), 10) }

// timeUnits are the units in which an algorithm may count time, finest first.
var timeUnits = [...]Micros{1, Millisecond, Second}

// Figures are the numbers that the decisions of a limit are calculated from, as [New]
// derived them from its spec. They are for code that decides elsewhere and has to agree to
// the last unit, such as the scripts on Redis.
type Figures struct {
	Capacity int64  // units that a new counter holds: Burst for a token bucket, else Count
	TTLLong  Micros // of units granted ahead while half of Capacity is left
	TTLShort Micros // of units granted ahead otherwise

	// Lookback is for how long after its period a reservation may still count, see Lockout.
	Lookback Micros

	// Unit is the unit of time of a token bucket or a sliding window: 1 µs, 1 ms
	// or 1 s; 0 for the others. Periods is how many of them a sliding window's
	// period has.
	Unit    Micros
	Periods int64

	// Of a token bucket: the credit that comes in per Unit, that a token costs and
	// that fills the bucket, and after how many Units any bucket is full.
	Rate, Cost, Cap, Fill int64
}

// Figures returns the limit's figures.
func (l *Limit) Figures() Figures {
	f := Figures{Capacity: l.capacity, TTLLong: l.ttlLong, TTLShort: l.ttlShort, Lookback: l.lookback()}
	switch l.spec.Algorithm {
	case TokenBucket:
		b := &l.bucket
		f.Unit, f.Rate, f.Cost, f.Cap, f.Fill = b.unit, b.rate, b.cost, b.cap, b.fill
	case SlidingWindow:
		f.Unit, f.Periods = l.fade.unit, l.fade.period
	}
	return f
}
