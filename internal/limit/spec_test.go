package limit

import (
	"errors"
	"strings"
	"testing"
)

func TestNewRejects(t *testing.T) {
	ok := Spec{Count: 10, Period: Second}
	with := func(change func(*Spec)) Spec {
		s := ok
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec   Spec
		field  string
		reason string // part of it
	}{
		"algorithm":             {with(func(s *Spec) { s.Algorithm = 5 }), "algorithm", "use token_bucket"},
		"negative count":        {with(func(s *Spec) { s.Count = -1 }), "count", "0 (deny everything) to 4294967295"},
		"count too large":       {with(func(s *Spec) { s.Count = MaxCount + 1 }), "count", "is 4294967296"},
		"no period":             {with(func(s *Spec) { s.Period = 0 }), "period", "1 ms to 366 days"},
		"period too long":       {with(func(s *Spec) { s.Period = MaxPeriod + Millisecond }), "period", "1 ms to 366 days"},
		"part of a millisecond": {with(func(s *Spec) { s.Period = 1500 }), "period", "whole milliseconds"},
		"negative burst":        {with(func(s *Spec) { s.Burst = -1 }), "burst", "write 1 to"},
		"burst of a window":     {with(func(s *Spec) { s.Algorithm, s.Burst = FixedWindow, 5 }), "burst", "only for token_bucket"},
		"too many slots":        {Spec{Algorithm: Concurrency, Count: MaxSlots + 1}, "count", "0 (deny everything) to 16777215"},
		"burst of count 0":      {with(func(s *Spec) { s.Count, s.Burst = 0, 5 }), "burst", "count above 0"},
		"align":                 {with(func(s *Spec) { s.Algorithm, s.Align = FixedWindow, 2 }), "align", "clock or first_request"},
		"align of a bucket":     {with(func(s *Spec) { s.Align = AlignFirstRequest }), "align", "only for fixed_window"},
		"interval of a bucket":  {with(func(s *Spec) { s.MinInterval = 1 }), "min_interval", "only for sliding_log"},
		"interval too long":     {with(func(s *Spec) { s.Algorithm, s.MinInterval = SlidingLog, Second+1 }), "min_interval", "0 to the period, 1000000 µs"},
		"penalty for slots":     {Spec{Algorithm: Concurrency, ChargeRejected: true}, "charge_rejected", "not for concurrency"},
		"lease ttl":             {with(func(s *Spec) { s.LeaseTTL = 1 }), "lease_ttl", "1 ms to 1 day"},
		"bucket too large":      {Spec{Count: 10, Period: 365 * Day, Burst: MaxCount}, "burst", "lower burst"},
		"rate too large":        {Spec{Count: MaxCount, Period: 365 * Day}, "count", "lower count"},
		"window too large":      {Spec{Algorithm: SlidingWindow, Count: MaxCount, Period: 365 * Day}, "count", "lower count"},
		"calendar of a bucket":  {with(func(s *Spec) { s.Calendar, s.Period = months, 30*Day }), "calendar", "write algorithm: fixed_window"},
		"calendar by request":   {Spec{Algorithm: FixedWindow, Align: AlignFirstRequest, Period: 30 * Day, Calendar: months}, "align", "leave it out"},
		"calendar and period":   {Spec{Algorithm: FixedWindow, Period: 31 * Day, Calendar: months}, "calendar", "day, week or month"},
		"no month has this day": {Spec{Algorithm: FixedWindow, Period: 30 * Day, Calendar: &Calendar{Per: PerMonth, Anchor: 32, Zone: "UTC"}}, "anchor", "1 to 31,"},
		"no week has this day":  {Spec{Algorithm: FixedWindow, Period: 7 * Day, Calendar: &Calendar{Per: PerWeek, Zone: "UTC"}}, "anchor", "1 to 7,"},
		"anchor of a day":       {Spec{Algorithm: FixedWindow, Period: Day, Calendar: &Calendar{Anchor: 1, Zone: "UTC"}}, "anchor", "leave it out"},
		"no zone":               {Spec{Algorithm: FixedWindow, Period: Day, Calendar: &Calendar{}}, "zone", "Europe/Berlin"},
		"odd period too large":  {Spec{Count: MaxCount, Period: Day + Millisecond}, "count", "whole seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.spec)
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("%v, want field %s and %q", err, c.field, c.reason)
			}
		})
	}
}

// The limits that have to be right, and the unit of time in which they are.
func TestNewFindsTheUnit(t *testing.T) {
	for _, c := range []struct {
		count         int64
		period        Micros
		bucket, slide Micros // 0: rejected
	}{
		{3_000_000, Second, 1, 1},
		{1, Day, 1, 1},
		{1_000_000, Day, 1, Millisecond}, // a bucket's count and period have a common divisor
		{999_983, Day, Millisecond, Millisecond},
		{75_000_000, Minute, 1, 1},
		{99_999_989, Day, Second, Second},
		{142_000_000, MaxPeriod, 1, Second},
		{142_000_001, MaxPeriod, Second, Second},
		{142_400_003, MaxPeriod, Second, Second},
		{143_000_003, MaxPeriod, 0, 0},
		{MaxCount, Millisecond, 1, 1},
		{MaxCount, Hour, Millisecond, Second},
	} {
		if l, err := New(Spec{Count: c.count, Period: c.period}); (err == nil) != (c.bucket != 0) || err == nil && l.bucket.unit != c.bucket {
			t.Errorf("token bucket %d/%d: %+v, %v", c.count, c.period, l, err)
		}
		s := Spec{Algorithm: SlidingWindow, Count: c.count, Period: c.period}
		if l, err := New(s); (err == nil) != (c.slide != 0) || err == nil && l.fade.unit != c.slide {
			t.Errorf("sliding window %d/%d: %+v, %v", c.count, c.period, l, err)
		}
	}
}

// A shape changes with what makes counters incomparable and with nothing else. It
// names counters, and its fingerprint travels in leases, so that neither may change.
func TestShape(t *testing.T) {
	base := Spec{Algorithm: FixedWindow, Count: 10, Period: Second}
	l := mustNew(t, base)
	shape := l.Shape()
	if shape != 1000<<4|2 || l.Fingerprint() != 0x1fc03e7d {
		t.Errorf("10/1s in fixed windows has shape %#x, fingerprint %#x: counters begin anew, leases of an earlier version are void", shape, l.Fingerprint())
	}
	same, other := base, base
	same.Count, same.ChargeRejected, same.LeaseTTL = 99, true, Minute
	if mustNew(t, same).Shape() != shape {
		t.Error("count, charge_rejected or lease ttl entered the shape")
	}
	other.Align = AlignFirstRequest
	for _, s := range []Spec{other, {Algorithm: SlidingWindow, Count: 10, Period: Second}, {Algorithm: FixedWindow, Count: 10, Period: Minute}} {
		if m := mustNew(t, s); m.Shape() == shape || m.Fingerprint() == l.Fingerprint() {
			t.Errorf("%+v has the shape of %+v", s, base)
		}
	}
	a, b := mustNew(t, Spec{Count: 1, Period: 9441 * Second}), mustNew(t, Spec{Count: 1, Period: 37583 * Second})
	if a.Fingerprint() != b.Fingerprint() || a.Shape() == b.Shape() {
		t.Error("two periods whose fingerprints meet have to have different shapes")
	}
	if s := mustNew(t, Spec{Algorithm: SlidingLog, Count: 1, Period: MaxPeriod}).Shape(); s >= 1<<39 {
		t.Errorf("the largest shape is %#x", s)
	}
}

// A changed calendar is another counter, and none is that of a period.
func TestShapeOfCalendars(t *testing.T) {
	shapes, prints := map[uint64]bool{}, map[uint32]bool{}
	add := func(s Spec) {
		l := mustNew(t, s)
		if shapes[l.Shape()] || prints[l.Fingerprint()] || l.Shape() >= 1<<39 {
			t.Errorf("%+v, %+v: shape %#x, fingerprint %#x", s, s.Calendar, l.Shape(), l.Fingerprint())
		}
		shapes[l.Shape()], prints[l.Fingerprint()] = true, true
	}
	for _, zone := range []string{"UTC", "Europe/Berlin", "Europe/Paris"} {
		add(Spec{Algorithm: FixedWindow, Period: Day, Calendar: &Calendar{Zone: zone}})
		for anchor := uint8(1); anchor <= 31; anchor++ {
			add(Spec{Algorithm: FixedWindow, Period: 30 * Day, Calendar: &Calendar{Per: PerMonth, Anchor: anchor, Zone: zone}})
			if anchor <= 7 {
				add(Spec{Algorithm: FixedWindow, Period: 7 * Day, Calendar: &Calendar{Per: PerWeek, Anchor: anchor, Zone: zone}})
			}
		}
	}
	for _, days := range []Micros{1, 7, 30, 366} {
		add(Spec{Algorithm: FixedWindow, Period: days * Day})
	}
	known, count := *months, Spec{Algorithm: FixedWindow, Count: 9, Period: 30 * Day, Calendar: &Calendar{Per: PerMonth, Anchor: 1, Zone: "UTC"}}
	if got, want := mustNew(t, Spec{Algorithm: FixedWindow, Period: 30 * Day, Calendar: &known}).Shape(), mustNew(t, count).Shape(); got != want {
		t.Errorf("shape %#x where the calendar is known, %#x where it is not", got, want)
	}
}

func TestSpecFillsDefaultsIn(t *testing.T) {
	if got, want := mustNew(t, Spec{Count: 10, Period: Second}).Spec(), (Spec{Count: 10, Period: Second, Burst: 10, LeaseTTL: 10 * Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := mustNew(t, Spec{Algorithm: Concurrency, Count: 3, Period: Second, LeaseTTL: Minute}).Spec(), (Spec{Algorithm: Concurrency, Count: 3, LeaseTTL: Minute}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
