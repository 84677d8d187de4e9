package limit

// MaxBlock is the longest Block of a [Spec].
const MaxBlock = MaxPeriod

// Lockout is what a limit with [Spec.Block] keeps of a key beside its [State], whatever its algorithm. The zero value is
// that of a key without a block or a reservation.
//
// A reservation is units that were granted and that no response has settled. One whose settlement is lost is forgotten
// with its units: after its window, and for algorithms that look back after one period more.
type Lockout struct {
	// Ends is when the block of the key ends; not after now: it has none.
	Ends Micros
	// Open is the units reserved in the period Period, and Before those in the period Earlier, the one before it.
	Open, Before    int64
	Period, Earlier Micros
}

// Empty reports whether the key has had no block and no reservation.
func (b *Lockout) Empty() bool { return b.Ends == 0 && b.Period == 0 }

// Block is what a decision has to do with a block. The zero value is nothing.
type Block uint8

// The cases.
const (
	Blocked    Block = 1 + iota // the key is blocked
	BlockBegan                  // the block of the key begins with this decision
)

// Blocks reports whether the limit blocks keys that reach it.
func (l *Limit) Blocks() bool { return l.spec.Block > 0 }

// WithoutBlock is the limit for a counter that on_failure decides by.
func (l *Limit) WithoutBlock() *Limit {
	own := *l
	own.spec.Block, own.spec.Reserves = 0, false
	return &own
}

// DecideBlocking is [Limit.Decide] with what a limit that blocks needs beside the state; for any other limit it is the same.
// A key with a block is denied, and nothing is charged. Otherwise a need begins a block if it would not fit even if all
// reservations, and all units that are kept for others, came back. RetryAfter and Remaining are then those of the block.
func (l *Limit) DecideBlocking(st *State, b *Lockout, now Micros, a Ask) (d Decision) {
	if l.spec.Block == 0 {
		return l.Decide(st, now, a)
	}
	now = LegalTime(now)
	a.legalize()
	if b.Ends > now {
		b.Ends = min(b.Ends, now+l.spec.Block) // else the rule has changed, or a clock was wrong
		d = l.Decide(st, now, Ask{})
		d.Remaining, d.RetryAfter, d.Block = 0, b.Ends-now, Blocked
		return d
	}
	d = l.Decide(st, now, a)
	if l.spec.Reserves {
		l.reserve(st, b, now, &d)
	}
	lacks := a.Need
	if d.Granted > 0 { // of the requests that still wait, the cheapest needs at least one
		lacks = min(a.Waiting-d.Granted, 1)
	}
	open := b.Open + b.Before
	switch {
	case lacks <= 0 || lacks > l.capacity: // that never fits
	case lacks > d.Remaining+a.Withheld+l.spec.Kept+open:
		b.Ends = now + l.spec.Block
		d.Remaining, d.RetryAfter, d.Block = 0, l.spec.Block, BlockBegan
	case open > 0 && d.Granted == 0:
		d.RetryAfter = min(d.RetryAfter, Second)
	}
	return d
}

// reserve makes what was granted a reservation.
func (l *Limit) reserve(st *State, b *Lockout, now Micros, d *Decision) {
	period := st.At
	if l.spec.Algorithm == TokenBucket {
		period = now - now%l.lookback()
		d.Period = period
	}
	if period != b.Period {
		b.Before, b.Earlier = b.Open, b.Period
		if period-b.Period > l.lookback() {
			b.Before = 0
		}
		b.Open, b.Period = 0, period
	}
	b.Open = min(b.Open+d.Granted, MaxCount)
}

// NamesReservation reports whether id may name units that a bucket has reserved at about now. Other leases of buckets have no
// name of their own.
func (l *Limit) NamesReservation(now Micros, id uint32) bool {
	if !l.spec.Reserves || l.spec.Algorithm != TokenBucket {
		return false
	}
	every := l.lookback()
	period := now - now%every
	return id == l.PeriodID(period-every) || id == l.PeriodID(period) || id == l.PeriodID(period+every)
}

// lookback is for how long after its period a unit may still count; for a bucket, which has no periods, they are as long.
func (l *Limit) lookback() Micros {
	switch l.spec.Algorithm {
	case TokenBucket:
		return max(min(Micros(l.bucket.fill), MaxPeriod/l.bucket.unit)*l.bucket.unit, 1)
	case SlidingWindow:
		return l.spec.Period
	}
	return 0
}

// Settle ends reservations of units of the period with this [Limit.PeriodID], which were given back or count.
func (l *Limit) Settle(b *Lockout, id uint32, units int64) {
	switch id {
	case l.PeriodID(b.Period):
		b.Open = max(0, b.Open-units)
	case l.PeriodID(b.Earlier):
		b.Before = max(0, b.Before-units)
	}
}
