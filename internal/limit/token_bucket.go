package limit

// Token bucket.
//
// A bucket holds up to burst tokens and refills at count tokens per period; a unit
// costs a token (the meter of RFC 2697, section 3, with one bucket; first in
// Turner, "New directions in communications", IEEE Communications Magazine 24(10),
// 1986). GCRA (ITU-T I.371, annex A) keeps a time in place of a level and admits
// the same traces.
//
// Arithmetic. A refill interval of period/count is not an integer (at 3,000,000/s
// it is a third of a microsecond), so the level is held as credit, of which
// `rate` comes in per unit of time and `cost` buys a token:
//
//	rate = count/g, cost = period/g, cap = burst*cost, g = gcd(count, period)
//
// Both are integers and rate/cost is exactly count/period. The largest number
// that occurs is what a bucket in full debt gains, 2*cap rounded up to a whole
// number of units of time, which is less than 2*cap+rate: hence the bound in
// [New]. Where it fails in microseconds, time is counted in milliseconds or
// seconds; At then moves by whole units only, so that the rest of a unit is
// credited with the next one and nothing is ever lost.
//
// Bound. Credit is spent only after it came in and never exceeds cap, so that in
// any interval of length t at most burst + t*count/period units are granted, in
// whole units at most floor of that; and under saturation at least as many less
// one, since all credit is spent but a fraction of a token.

// bucket is what a token bucket derives from its spec.
type bucket struct {
	unit Micros // of time: 1 µs, 1 ms or 1 s
	rate int64  // credit that comes in per unit of time
	cost int64  // credit that a token costs, >= 1
	cap  int64  // credit of a full bucket
	fill int64  // units of time that fill any bucket: ceil(2*cap/rate)
}

// newBucket finds the finest unit of time in which the arithmetic is exact.
func newBucket(s Spec) (bucket, bool) {
	for _, unit := range timeUnits {
		if s.Period%unit != 0 {
			continue
		}
		period := int64(s.Period / unit)
		g := GCD(s.Count, period)
		b := bucket{unit: unit, rate: s.Count / g, cost: period / g}
		if s.Burst > (maxExact-1-b.rate)/(2*b.cost) {
			continue
		}
		b.cap = s.Burst * b.cost
		if b.rate > 0 {
			b.fill = ceilDiv(2*b.cap, b.rate)
		}
		return b, true
	}
	return bucket{}, false
}

// tokenCost is what a token cost in the unit of Level when that was written: bucket.cost
// of the limit that wrote it, by which it is seen that a changed count has changed the
// unit. It is 0 only in a state that was never used.
func (st *State) tokenCost() *int64 { return &st.Aux }

// giveBack accepts the whole units for which there is room; if that is not
// all of them, the bucket is full.
func (b *bucket) giveBack(st *State, units int64) int64 {
	room := (b.cap - st.Level) / b.cost
	if units > room {
		st.Level = b.cap
		return room
	}
	st.Level += units * b.cost
	return units
}

// refill credits the time since At.
func (l *Limit) refill(st *State, now Micros) {
	b := &l.bucket
	if st.At == 0 {
		*st = State{At: now, Level: b.cap, Aux: b.cost}
		return
	}
	if *st.tokenCost() != b.cost {
		st.Level = b.rescale(st.Level, *st.tokenCost())
		*st.tokenCost() = b.cost
	}
	st.Level = max(-b.cap, min(st.Level, b.cap))
	if now < st.At {
		if st.At-now > l.spec.Period { // a clock was wrong
			st.At = now
		}
		return
	}
	elapsed := int64(now - st.At)
	if b.unit != 1 {
		elapsed /= int64(b.unit)
	}
	gain := min(elapsed, b.fill) * b.rate
	if gain >= b.cap-st.Level {
		// Full: what is left of the last unit of time would not have fitted.
		st.At, st.Level = now, b.cap
		return
	}
	st.At += Micros(elapsed) * b.unit
	st.Level += gain
}

// rescale converts a level whose tokens cost oldCost, after the rule's count has
// changed. It keeps whole tokens: rounding down admits less, once, by less than
// a token.
func (b *bucket) rescale(level, oldCost int64) int64 {
	tokens := level / max(oldCost, 1)
	if level < 0 && tokens*oldCost != level {
		tokens--
	}
	burst := b.cap / b.cost
	return max(-burst, min(tokens, burst)) * b.cost
}

// tokens is how many whole tokens there are.
func (b *bucket) tokens(st *State) int64 { return max(st.Level, 0) / b.cost }

// charge takes units, down to a debt of one full bucket.
func (b *bucket) charge(st *State, units int64) {
	if units > (st.Level+b.cap)/b.cost {
		st.Level = -b.cap
	} else {
		st.Level -= units * b.cost
	}
}

// bucketWait is how long from now until there are so many tokens: the k-th unit
// of time after At is the first to bring them, k = ceil(missing/rate).
func (l *Limit) bucketWait(st *State, now Micros, tokens int64) Micros {
	b := &l.bucket
	if tokens > l.capacity {
		return Never
	}
	missing := tokens*b.cost - st.Level
	if missing <= 0 {
		return 0
	}
	k := ceilDiv(missing, b.rate)
	if k > int64(maxExact/2/b.unit) {
		return Never
	}
	return Micros(k)*b.unit + (st.At - now)
}

// GCD is the greatest common divisor.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
