package limit

import (
	"math/big"
	"slices"
)

// twin is a limit by definition: it keeps every charge that was ever made and
// recomputes each decision from all of them, in rationals, without the tricks of
// the real one (no credit, no running sums, no bound on intermediate results).
// What it shares with it is the reading of a clock that steps back, and the unit
// of time.
type twin struct {
	spec    Spec
	unit    Micros
	seen    Micros // the time below which it does not go back; a window's start
	charges []charge
	tokens  *big.Rat // at seen
	begun   bool     // the window, where it begins with its first charge
}

// charge is units charged at a time, and for windows to the window begun then.
type charge struct {
	at    Micros
	units int64
}

func newTwin(l *Limit) *twin {
	w := &twin{spec: l.Spec(), unit: 1}
	switch w.spec.Algorithm {
	case TokenBucket:
		w.unit, w.tokens = l.bucket.unit, rat(w.spec.Burst)
	case SlidingWindow:
		w.unit = l.fade.unit
	}
	return w
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// sum is the units charged in from <= at <= to.
func (w *twin) sum(from, to Micros) (n int64) {
	for _, c := range w.charges {
		if from <= c.at && c.at <= to {
			n += c.units
		}
	}
	return n
}

// moveTo is the definition of time for each algorithm.
func (w *twin) moveTo(now Micros) {
	p := w.spec.Period
	wrong := w.seen-now > p
	if c := w.spec.Calendar; c != nil {
		w.moveToWindow(c.Windows.Around(now))
		return
	}
	switch w.spec.Algorithm {
	case TokenBucket:
		w.refill(now, wrong)
	case SlidingLog:
		for i := range w.charges {
			if c := &w.charges[i]; wrong && c.at > now {
				c.at = now + max(0, c.at-w.seen)
			}
		}
		if wrong {
			w.seen = now
		}
		w.seen = max(w.seen, now)
		w.charges = slices.DeleteFunc(w.charges, func(c charge) bool { return c.at <= w.seen-p })
	case FixedWindow, SlidingWindow:
		start := now / p * p
		if w.spec.Align == AlignFirstRequest {
			start = now
			if w.begun = w.begun && (wrong || now-w.seen < p); w.begun && !wrong {
				start = w.seen
			} else if !w.begun {
				w.seen, w.charges, wrong = now, nil, false
			}
		}
		if wrong {
			w.charges = slices.DeleteFunc(w.charges, func(c charge) bool { return c.at < w.seen-p })
			for i := range w.charges {
				w.charges[i].at += start - w.seen
			}
			w.seen = start
		}
		w.seen = max(w.seen, start)
	}
}

// moveToWindow is moveTo for windows of a calendar, of which six begin then, the second of them by now.
func (w *twin) moveToWindow(begins *[6]Micros) {
	start, next := begins[1], begins[2]
	if wrong := w.seen > start && w.seen != next; wrong {
		w.charges = slices.DeleteFunc(w.charges, func(c charge) bool { return c.at < w.seen })
		for i := range w.charges {
			if c := &w.charges[i]; c.at == w.seen {
				c.at = start
			} else {
				c.at = next
			}
		}
		w.seen = start
	}
	w.seen = max(w.seen, start)
}

// end is the end of the window that starts then.
func (w *twin) end(start Micros) Micros {
	if c := w.spec.Calendar; c != nil {
		return c.Windows.Around(start)[2]
	}
	return start + w.spec.Period
}

// refill adds the tokens that came in, in whole units of time since the last moment that
// was exact; for a full bucket each moment is.
func (w *twin) refill(now Micros, wrong bool) {
	if w.seen == 0 || wrong {
		w.seen = now
	}
	if now < w.seen {
		return
	}
	units := (now - w.seen) / w.unit
	in := new(big.Rat).Mul(rat(int64(units*w.unit)), big.NewRat(w.spec.Count, int64(w.spec.Period)))
	w.seen += units * w.unit
	if w.tokens.Add(w.tokens, in); w.tokens.Cmp(rat(w.spec.Burst)) >= 0 {
		w.tokens, w.seen = rat(w.spec.Burst), now
	}
}

// remaining is the most that could be granted.
func (w *twin) remaining(now Micros) int64 {
	s := w.spec
	switch s.Algorithm {
	case TokenBucket:
		return max(0, floor(w.tokens))
	case FixedWindow:
		return max(0, s.Count-w.sum(w.seen, w.seen))
	case SlidingWindow:
		elapsed := max(0, now-w.seen) / w.unit * w.unit
		weight := big.NewRat(int64(s.Period-elapsed), int64(s.Period))
		before := min(w.sum(w.seen-s.Period, w.seen-s.Period), 2*s.Count)
		left := rat(s.Count - w.sum(w.seen, w.seen))
		return max(0, floor(left.Sub(left, weight.Mul(weight, rat(before)))))
	}
	for _, c := range w.charges {
		if c.at+s.MinInterval > w.seen && s.MinInterval > 0 {
			return 0
		}
	}
	return max(0, s.Count-w.sum(w.seen-s.Period+1, Never))
}

func floor(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // Euclidean: floor for a positive divisor
}

// take charges units, down to the debt that the limit allows.
func (w *twin) take(at Micros, units int64) {
	switch s := w.spec; s.Algorithm {
	case TokenBucket:
		if w.tokens.Sub(w.tokens, rat(units)); w.tokens.Cmp(rat(-s.Burst)) < 0 {
			w.tokens = rat(-s.Burst)
		}
		return
	case FixedWindow, SlidingWindow:
		units = min(units, 2*s.Count-w.sum(at, at))
	case SlidingLog:
		units = min(units, 2*s.Count-w.sum(w.seen-s.Period+1, Never))
	}
	if units > 0 {
		w.begun = true
		w.charges = append(w.charges, charge{at, units})
		slices.SortStableFunc(w.charges, func(a, b charge) int { return int(a.at - b.at) })
	}
}

func (w *twin) acquire(now Micros, a Ask) Decision {
	w.moveTo(now)
	s, end := w.spec, w.end(w.seen)
	d := Decision{Remaining: max(0, w.remaining(now)-a.Withheld)}
	if s.Algorithm == FixedWindow && s.Align == AlignClock && a.Need == 0 && a.Lead > 0 && end-now <= a.Lead {
		next := max(0, s.Count-w.sum(end, end)-a.Withheld)
		if d.Granted = w.size(next, a); d.Granted > 0 {
			w.take(end, d.Granted)
			d.Period, d.StartsIn = end, end-now
			d.TTL = end - now + min(w.ttl(next, s.Count), w.end(end)-end)
		}
		return d
	}
	if d.Remaining < a.Need {
		if s.ChargeRejected {
			w.take(w.seen, a.Need)
			d.Remaining = max(0, w.remaining(now)-a.Withheld)
		}
		return d
	}
	before := d.Remaining
	if d.Granted = w.size(before, a); d.Granted == 0 {
		return d
	}
	d.Period = w.seen
	switch s.Algorithm {
	case TokenBucket:
		d.Period, d.TTL = 0, w.ttl(before, s.Burst)
	case SlidingLog:
		d.TTL = min(w.ttl(before, s.Count), s.Period/50)
		if d.Granted > a.Waiting {
			d.Period += d.TTL
		}
	default:
		d.TTL = min(w.ttl(before, s.Count), end-now)
	}
	w.take(d.Period, d.Granted)
	d.Remaining = max(0, w.remaining(now)-a.Withheld)
	return d
}

func (w *twin) size(remaining int64, a Ask) int64 {
	if w.spec.MinInterval > 0 {
		return a.Need
	}
	share := remaining / (2 * max(1, a.Askers))
	if w.spec.Algorithm == TokenBucket {
		share = remaining
	}
	return min(a.Want, remaining, max(a.Waiting, share))
}

func (w *twin) ttl(remaining, capacity int64) Micros {
	if 2*remaining >= capacity {
		return w.spec.LeaseTTL
	}
	return min(w.spec.LeaseTTL, Second)
}

func (w *twin) giveBack(now, period Micros, units int64) int64 {
	w.moveTo(now)
	if w.spec.Algorithm == TokenBucket {
		room := new(big.Rat).Sub(rat(w.spec.Burst), w.tokens)
		if floor(room) >= units {
			w.tokens.Add(w.tokens, rat(units))
			return units
		}
		w.tokens = rat(w.spec.Burst)
		return floor(room)
	}
	left := units
	for i := range w.charges {
		c := &w.charges[i]
		if c.at/Millisecond == period/Millisecond && w.counts(c.at) {
			back := min(left, c.units)
			c.units -= back
			left -= back
		}
	}
	w.charges = slices.DeleteFunc(w.charges, func(c charge) bool { return c.units == 0 })
	return units - left
}

// counts reports whether what was charged then still matters.
func (w *twin) counts(at Micros) bool {
	switch w.spec.Algorithm {
	case FixedWindow:
		return at >= w.seen
	case SlidingWindow:
		return at >= w.seen-w.spec.Period
	}
	return true
}

func (w *twin) charge(now Micros, units int64) {
	w.moveTo(now)
	w.take(w.seen, units)
}
