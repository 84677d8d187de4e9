package limit

// Figures are the numbers that the decisions of a limit are calculated from, as [New]
// derived them from its spec. They are for code that decides elsewhere and has to agree to
// the last unit, such as the scripts on Redis.
type Figures struct {
	Capacity int64  // units that a new counter holds: Burst for a token bucket, else Count
	TTLLong  Micros // of units granted ahead while half of Capacity is left
	TTLShort Micros // of units granted ahead otherwise

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
	f := Figures{Capacity: l.capacity, TTLLong: l.ttlLong, TTLShort: l.ttlShort}
	switch l.spec.Algorithm {
	case TokenBucket:
		b := &l.bucket
		f.Unit, f.Rate, f.Cost, f.Cap, f.Fill = b.unit, b.rate, b.cost, b.cap, b.fill
	case SlidingWindow:
		f.Unit, f.Periods = l.fade.unit, l.fade.period
	}
	return f
}
