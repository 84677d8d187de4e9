package limit

import (
	"errors"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const epoch = 1_700_000_000 * Second

// op is what a step of a random trace does.
type op uint8

const (
	opAcquire op = iota
	opReturn
	opReturnByID
	opCharge
)

// step is one step of a random trace.
type step struct {
	after Micros // since the step before; may be negative
	flip  bool   // then to the next flip of a calendar, about
	op    op
	ask   Ask
	units int64 // charged or given back
	grant int   // which of the grants so far is given back, newest first
}

// replay runs a trace on a limit and on its twin and checks every promise of
// [Decision] at every step.
func replay(t *rapid.T, l *Limit, steps []step) {
	t.Helper()
	var st State
	var grants []Decision
	w, now := newTwin(l), epoch
	for i, s := range steps {
		if now = min(max(1, now+s.after), maxNow); s.flip && l.windows != nil {
			now = l.windows.Around(now)[2] + s.after%2
		}
		switch s.op {
		case opAcquire:
			before := clone(st)
			peek := l.Peek(st, now, s.ask.Need)
			if !slices.Equal(st.Log, before.Log) {
				t.Fatalf("step %d: peek wrote to the log: %+v", i, st)
			}
			var d Decision
			st, d = l.Acquire(st, now, s.ask)
			checkBounds(t, i, l, s.ask, d)
			same := d // when to come again is checked by coming again
			same.RetryAfter, same.Reset = 0, 0
			if want := w.acquire(now, s.ask); same != want {
				t.Fatalf("step %d: %+v\n got %+v\nwant %+v", i, s, same, want)
			}
			checkPeek(t, i, l, before, peek, s.ask, d)
			checkRetry(t, i, l, st, now, s.ask, d)
			checkReset(t, i, l, st, now, d.Reset)
			grants = append(grants, d)
		case opCharge:
			st = l.Charge(st, now, s.units)
			w.charge(now, s.units)
		default:
			if len(grants) == 0 {
				continue
			}
			d := &grants[len(grants)-1-s.grant%len(grants)]
			period, units := d.Period, min(s.units, d.Granted)
			d.Granted -= units
			if far := max(now-d.Period, d.Period-now) > 24*Day; s.op == opReturnByID && !far {
				period = l.PeriodFromID(now, l.PeriodID(d.Period))
			}
			var got int64
			st, got = l.Return(st, now, period, units)
			if want := w.giveBack(now, d.Period, units); got != want {
				t.Fatalf("step %d: %+v gave back %d, by definition %d", i, s, got, want)
			}
		}
		checkState(t, i, l, st)
		checkExact(t, i, l, st, now)
		checkFresh(t, i, l, st, now)
	}
}

func checkBounds(t rapid.TB, i int, l *Limit, a Ask, d Decision) {
	t.Helper()
	switch {
	case d.Granted < 0 || d.Granted > a.Want:
		t.Fatalf("step %d: granted %d of a want of %d", i, d.Granted, a.Want)
	case d.Granted > 0 && d.Granted < a.Need:
		t.Fatalf("step %d: granted %d, less than the need of %d", i, d.Granted, a.Need)
	case d.Granted == 0 && (d.TTL != 0 || d.StartsIn != 0 || d.Period != 0):
		t.Fatalf("step %d: nothing granted, but for a time: %+v", i, d)
	case d.Granted > 0 && d.TTL <= d.StartsIn:
		t.Fatalf("step %d: over before it begins: %+v", i, d)
	case a.Withheld == 0 && (d.RetryAfter == 0) != (d.Granted > 0 || a.Need == 0):
		t.Fatalf("step %d: need %d, retry after %d: %+v", i, a.Need, d.RetryAfter, d)
	case d.Remaining < 0 || d.Remaining > l.capacity || d.RetryAfter < 0 || d.Reset < 0:
		t.Fatalf("step %d: out of range: %+v", i, d)
	}
}

// checkPeek holds a peek against what was then decided on its need, and whether
// it left the state alone.
func checkPeek(t rapid.TB, i int, l *Limit, st State, peek Decision, a Ask, d Decision) {
	t.Helper()
	if ahead := a.Need == 0; !ahead && (peek.Remaining-a.Withheld >= a.Need) != (d.Granted > 0) {
		t.Fatalf("step %d: peek %+v, but %+v", i, peek, d)
	}
	if d.Granted == 0 && !l.spec.ChargeRejected && peek.RetryAfter != d.RetryAfter {
		t.Fatalf("step %d: peek states retry after %d, acquire %d", i, peek.RetryAfter, d.RetryAfter)
	}
	if peek.Granted > 0 && peek.Remaining < peek.Granted {
		t.Fatalf("step %d: peek grants more than remains: %+v", i, peek)
	}
}

// checkRetry waits exactly for RetryAfter and is granted; a microsecond
// less, or any other time before, and it is denied.
func checkRetry(t rapid.TB, i int, l *Limit, st State, now Micros, a Ask, d Decision) {
	t.Helper()
	if a.Need == 0 || d.RetryAfter == 0 {
		return
	}
	if d.RetryAfter == Never {
		if a.Need <= l.capacity && l.spec.Algorithm != TokenBucket {
			t.Fatalf("step %d: need %d never fits", i, a.Need)
		}
		return
	}
	if p := l.Peek(st, now+d.RetryAfter, a.Need); p.Granted != a.Need {
		t.Fatalf("step %d: waited RetryAfter, %d µs, still denied: %+v, %+v", i, d.RetryAfter, p, st)
	}
	for _, early := range []Micros{1, 2, Millisecond, d.RetryAfter / 3, d.RetryAfter / 2, d.RetryAfter} {
		if early <= 0 || early > d.RetryAfter {
			continue
		}
		if p := l.Peek(st, now+d.RetryAfter-early, a.Need); p.Granted != 0 {
			t.Fatalf("step %d: RetryAfter is %d µs, granted %d µs earlier", i, d.RetryAfter, early)
		}
	}
}

// checkReset waits for a counter as good as new.
func checkReset(t rapid.TB, i int, l *Limit, st State, now, reset Micros) {
	t.Helper()
	switch {
	case reset == 0 != l.Fresh(st, now):
		t.Fatalf("step %d: reset in %d, fresh %v", i, reset, l.Fresh(st, now))
	case reset == 0, reset == Never:
	case !l.Fresh(st, now+reset) || l.Fresh(st, now+reset-1):
		t.Fatalf("step %d: reset in %d µs, but fresh then: %v, one µs before: %v", i, reset,
			l.Fresh(st, now+reset), l.Fresh(st, now+reset-1))
	}
}

// checkFresh holds a fresh state against a new one.
func checkFresh(t rapid.TB, i int, l *Limit, st State, now Micros) {
	t.Helper()
	if !l.Fresh(st, now) || now < st.At {
		return
	}
	for _, a := range []Ask{{Want: MaxCount}, {Need: l.capacity, Waiting: l.capacity, Want: l.capacity}, {Need: 1, Waiting: 1, Want: 2}} {
		_, kept := l.Acquire(clone(st), now, a)
		_, forgotten := l.Acquire(State{}, now, a)
		if kept != forgotten {
			t.Fatalf("step %d: fresh, but decides %+v where a new one decides %+v", i, kept, forgotten)
		}
	}
}

// checkState holds a state against the ranges beside its fields.
func checkState(t rapid.TB, i int, l *Limit, st State) {
	t.Helper()
	fits := true
	switch l.spec.Algorithm {
	case TokenBucket:
		fits = -l.bucket.cap <= st.Level && st.Level <= l.bucket.cap && st.Aux == l.bucket.cost && st.Log == nil
	case FixedWindow:
		fits = 0 <= st.Level && st.Level <= 2*l.spec.Count && 0 <= st.Aux && st.Aux <= l.spec.Count && st.Log == nil
	case SlidingWindow:
		fits = 0 <= st.Level && st.Level <= 2*l.spec.Count && 0 <= st.Aux && st.Aux <= 2*l.spec.Count && st.Log == nil
	case SlidingLog:
		var live, before int64
		for k, c := range st.Log {
			if int64(k) >= st.Aux {
				live += c.Sum - before
			}
			fits = fits && c.Sum > before && (int64(k) <= st.Aux || st.Log[k-1].At <= c.At) && c.Sum < maxExact
			before = c.Sum
		}
		fits = fits && live == st.Level && st.Level <= 2*l.spec.Count && 0 <= st.Aux && st.Aux <= int64(len(st.Log))
	}
	if !fits || st.At < 0 || st.At+3*MaxPeriod >= maxExact {
		t.Fatalf("step %d: a state out of range: %+v, credit of a token %d", i, st, l.bucket.cost)
	}
}

// checkExact recomputes without bounds every product that a decision on this
// state may form, and holds it against what a double can hold.
func checkExact(t rapid.TB, i int, l *Limit, st State, now Micros) {
	t.Helper()
	var terms []*big.Int
	switch b, f := l.bucket, l.fade; l.spec.Algorithm {
	case TokenBucket:
		elapsed := min(int64(max(0, now+MaxPeriod-st.At)/b.unit), b.fill)
		terms = []*big.Int{
			product(elapsed, b.rate),
			new(big.Int).Sub(product(l.capacity, b.cost), big.NewInt(-b.cap-b.rate)), // what bucketWait divides at most
			new(big.Int).Add(big.NewInt(b.cap), big.NewInt(b.cap)),
		}
	case SlidingWindow:
		weighted := new(big.Int).Add(product(min(max(st.Aux, st.Level), 2*l.spec.Count), f.period), big.NewInt(f.period-1))
		terms = []*big.Int{weighted, product(l.spec.Count, f.period)}
	}
	for k, n := range terms {
		if n.Cmp(big.NewInt(maxExact)) >= 0 {
			t.Fatalf("step %d: intermediate %d is %v, beyond 2^53", i, k, n)
		}
	}
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func clone(st State) State {
	st.Log = slices.Clone(st.Log)
	return st
}

// Odd limits, in the order of MaxCount, of a second, of a day.
var (
	counts  = []int64{0, 1, 2, 3, 7, 10, 100, 500, 1_000, 99_991, 999_983, 1_000_000, 3_000_000, MaxCount}
	periods = []Micros{Millisecond, 7 * Millisecond, 999 * Millisecond, Second, 1500 * Millisecond, 7 * Second,
		Minute, Hour, 7 * Hour, Day, 30 * Day, MaxPeriod}
)

func drawLimit(t *rapid.T, algorithms ...Algorithm) *Limit {
	s := Spec{
		Algorithm:      rapid.SampledFrom(algorithms).Draw(t, "algorithm"),
		Count:          rapid.OneOf(rapid.SampledFrom(counts), rapid.Int64Range(0, 20)).Draw(t, "count"),
		Period:         rapid.OneOf(rapid.SampledFrom(periods), rapid.Map(rapid.Int64Range(1, 100_000), millis)).Draw(t, "period"),
		ChargeRejected: rapid.Bool().Draw(t, "charge denied"),
		LeaseTTL:       rapid.SampledFrom([]Micros{0, Millisecond, Minute}).Draw(t, "lease ttl"),
	}
	switch s.Algorithm {
	case TokenBucket:
		if s.Count > 0 {
			s.Burst = rapid.OneOf(rapid.Just(int64(0)), rapid.SampledFrom(counts[1:])).Draw(t, "burst")
		}
	case FixedWindow:
		switch s.Align = rapid.SampledFrom([]Align{AlignClock, AlignFirstRequest}).Draw(t, "align"); {
		case s.Align == AlignClock && rapid.Bool().Draw(t, "calendar"):
			s.Period, s.Calendar = PerMonth.Period(), months
		}
	case SlidingLog:
		s.MinInterval = rapid.SampledFrom([]Micros{0, 0, 1, s.Period / 7, s.Period}).Draw(t, "min interval")
	}
	l, err := New(s)
	if bad := new(SpecError); errors.As(err, &bad) && bad.Field != "" && bad.Reason != "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatalf("an error without a field or a reason: %v", err)
	}
	return l
}

func millis(n int64) Micros { return Micros(n) * Millisecond }

func drawSteps(t *rapid.T, l *Limit) []step {
	p := max(l.spec.Period, 50)
	after := rapid.OneOf(
		rapid.SampledFrom([]Micros{0, 1, 2, Millisecond, Second, Hour, Day, 365 * Day, -1, -Millisecond, -10 * Second, -Hour,
			p, p - 1, p + 1, 2 * p, 2*p - 1, -p, -p - 1, -p + 1, p / 2, p / 3, p / 50}),
		rapid.Map(rapid.Int64Range(0, int64(p)), micros),
		rapid.Map(rapid.Int64Range(0, int64(p)/max(1, 2*l.capacity)), micros),
	)
	c := l.capacity
	units := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 2, c / 2, c - 1, c, c + 1, 2 * c, MaxCount}), rapid.Int64Range(0, max(1, c/3)))
	legal := rapid.Map(units, legalUnits)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{after: after.Draw(t, "after"), flip: l.windows != nil && rapid.IntRange(0, 3).Draw(t, "flip") == 0, op: rapid.SampledFrom([]op{0, 0, 0, 0, 0, opReturn, opReturnByID, opCharge}).Draw(t, "op")}
		switch s.op {
		case opAcquire:
			need := legal.Draw(t, "need")
			waiting := min(MaxCount, need+rapid.SampledFrom([]int64{0, 0, 1, c}).Draw(t, "also waiting"))
			want := min(MaxCount, waiting+rapid.SampledFrom([]int64{0, 0, 1, c / 3, c}).Draw(t, "ahead"))
			s.ask = Ask{Need: need, Waiting: waiting, Want: want, Askers: rapid.Int64Range(0, 5).Draw(t, "askers"),
				Withheld: rapid.SampledFrom([]int64{0, 0, 0, 1, c / 3, c, MaxCount}).Draw(t, "withheld"),
				Lead:     rapid.SampledFrom([]Micros{0, 0, p / 4, 2 * p}).Draw(t, "lead")}
		default:
			s.units = legal.Draw(t, "units")
			s.grant = rapid.IntRange(0, 3).Draw(t, "grant")
		}
		return s
	}), 1, 60).Draw(t, "steps")
}

// A state goes on under a changed count: never more than the larger count in a
// window, and RetryAfter stays exact.
func TestCountChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, FixedWindow, SlidingWindow, SlidingLog, TokenBucket)
		var st State
		now, before := epoch, l
		for i, s := range drawSteps(t, l) {
			now = min(max(1, now+s.after), maxNow)
			if i%3 == 2 {
				spec := l.Spec()
				spec.Count = rapid.SampledFrom(counts).Draw(t, "new count")
				spec.Burst = 0
				changed, err := New(spec)
				if err != nil {
					continue
				}
				before, l = l, changed
			}
			if s.op == opCharge {
				st = l.Charge(st, now, s.units)
				continue
			}
			var d Decision
			st, d = l.Acquire(st, now, s.ask)
			if d.Granted > 0 && d.StartsIn == 0 && l.spec.Algorithm != TokenBucket && st.Level > max(l.spec.Count, before.spec.Count) {
				t.Fatalf("step %d: %d charged of %d and before %d", i, st.Level, l.spec.Count, before.spec.Count)
			}
			checkBounds(t, i, l, s.ask, d)
			checkRetry(t, i, l, st, now, s.ask, d)
			checkReset(t, i, l, st, now, d.Reset)
			checkExact(t, i, l, st, now)
		}
	})
}

func micros(n int64) Micros { return Micros(n) }

// byDefinition replays traces of an algorithm.
func byDefinition(a Algorithm) func(t *rapid.T) {
	return func(t *rapid.T) {
		l := drawLimit(t, a)
		replay(t, l, drawSteps(t, l))
	}
}

func TestAgainstDefinition(t *testing.T) {
	for a := range Concurrency {
		t.Run(a.String(), func(t *testing.T) {
			for range 30 { // a hundred traces each, in some 10 ms
				rapid.Check(t, byDefinition(a))
			}
		})
	}
}
