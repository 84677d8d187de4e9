package limit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slotTwin keeps every holding ever made and counts those that have not run out.
type slotTwin struct {
	spec Spec
	seen Micros
	held map[uint64]Holding
}

func (w *slotTwin) moveTo(now Micros) {
	if w.seen-now > w.spec.LeaseTTL {
		for id, h := range w.held {
			h.Until = min(h.Until, now+w.spec.LeaseTTL)
			w.held[id] = h
		}
		w.seen = now
	}
	w.seen = max(w.seen, now)
	for id, h := range w.held {
		if h.Until <= w.seen {
			delete(w.held, id)
		}
	}
}

func (w *slotTwin) used() (n int64) {
	for _, h := range w.held {
		n += h.Units
	}
	return n
}

func (w *slotTwin) set(id uint64, units int64) {
	if delete(w.held, id); units > 0 {
		w.held[id] = Holding{id, units, w.seen + w.spec.LeaseTTL}
	}
}

// hold is the sentence of [Limit.Hold]: one slot at a time while it is due.
func (w *slotTwin) hold(now Micros, id uint64, holding, want int64) int64 {
	w.moveTo(now)
	had := w.held[id].Units
	delete(w.held, id)
	others, holders := w.used(), int64(len(w.held)+1)
	granted := min(holding, had)
	for granted < holding && others+granted < w.spec.Count {
		granted++
	}
	rest := w.spec.Count - others - granted
	for ahead := int64(0); granted < want && ahead < rest && (ahead == 0 || (ahead+1)*2*holders <= rest); ahead++ {
		granted++
	}
	w.set(id, granted)
	return granted
}

func (w *slotTwin) acquire(now Micros, id uint64, cost int64) int64 {
	w.moveTo(now)
	had := w.held[id].Units
	if cost == 0 || cost > had && w.used()-had+cost > w.spec.Count {
		return 0
	}
	w.set(id, cost)
	return cost
}

func TestConcurrencyAgainstDefinition(t *testing.T) { rapid.Check(t, slotsByDefinition) }

// slotsByDefinition takes and gives back slots in any order.
func slotsByDefinition(t *rapid.T) {
	s := Spec{Algorithm: Concurrency, Count: rapid.Int64Range(0, 30).Draw(t, "count")}
	l := mustNew(t, s)
	var st Slots
	w, now := &slotTwin{spec: l.Spec(), held: map[uint64]Holding{}}, epoch
	for range rapid.IntRange(1, 80).Draw(t, "steps") {
		now += rapid.SampledFrom([]Micros{0, 1, ms, Second, 3 * Second, 10 * Second, -ms, -Second, -Hour, Hour}).Draw(t, "after")
		if rapid.IntRange(0, 15).Draw(t, "change the rule") == 0 {
			s.Count = rapid.Int64Range(0, 30).Draw(t, "new count")
			s.LeaseTTL = rapid.SampledFrom([]Micros{0, 3 * Second, Minute}).Draw(t, "new ttl")
			l, _ = New(s)
			w.spec = l.Spec()
		}
		id := rapid.Uint64Range(1, 8).Draw(t, "id")
		n := rapid.Int64Range(0, 12).Draw(t, "units")
		var d HoldDecision
		var want int64
		before := cloneSlots(st)
		switch rapid.IntRange(0, 4).Draw(t, "op") {
		case 0, 1:
			ahead := rapid.Int64Range(0, 20).Draw(t, "ahead")
			st, d = l.Hold(st, now, id, n, n+ahead)
			want = w.hold(now, id, n, n+ahead)
			checkHoldRetry(t, l, st, now, d, max(n, min(n+ahead, 1)), func(st Slots, at Micros) HoldDecision {
				_, d := l.Hold(st, at, id, n, n+ahead)
				return d
			})
		case 2:
			st, d = l.AcquireSlot(st, now, id, n)
			want = w.acquire(now, id, n)
			checkHoldRetry(t, l, st, now, d, n, func(st Slots, at Micros) HoldDecision {
				_, d := l.AcquireSlot(st, at, id, n)
				return d
			})
		case 3:
			st, d = l.RenewSlot(st, now, id)
			w.moveTo(now)
			want = w.held[id].Units
			w.set(id, want)
		case 4:
			var got int64
			st, got = l.ReleaseSlot(st, now, id)
			w.moveTo(now)
			want = w.held[id].Units
			w.set(id, 0)
			d = HoldDecision{Granted: got, Remaining: max(0, s.Count-w.used())}
		}
		if d.Granted != want || d.Remaining != max(0, s.Count-w.used()) || st.Used != w.used() || len(st.Held) != len(w.held) {
			t.Fatalf("got %+v and %+v from %+v,\nby definition %d and %+v", d, st, before, want, w.held)
		}
		checkSlots(t, l, st, now)
	}
}

// checkHoldRetry waits for RetryAfter, and one microsecond less.
func checkHoldRetry(
	t rapid.TB, l *Limit, st Slots, now Micros, d HoldDecision, need int64, again func(Slots, Micros) HoldDecision,
) {
	t.Helper()
	granted := func(at Micros) bool { return again(cloneSlots(st), at).Granted >= need }
	switch {
	case (d.RetryAfter == 0) != (d.Granted >= need), (d.RetryAfter == Never) != (need > l.spec.Count && d.Granted < need):
		t.Fatalf("retry after %d µs, of %d slots needed: %+v", d.RetryAfter, need, d)
	case d.RetryAfter == 0, d.RetryAfter == Never:
	case !granted(now+d.RetryAfter) || granted(now+d.RetryAfter-1):
		t.Fatalf("retry after %d µs is not exact: %+v", d.RetryAfter, st)
	}
}

// checkSlots holds the slots against the invariants beside their fields.
func checkSlots(t rapid.TB, l *Limit, st Slots, now Micros) {
	t.Helper()
	var used int64
	for i, h := range st.Held {
		used += h.Units
		if h.Units <= 0 || h.Until < st.Next || h.Until <= st.At || i > 0 && st.Held[i-1].ID >= h.ID {
			t.Fatalf("holding %d: %+v", i, st)
		}
	}
	if used != st.Used || l.FreshSlots(st, now) != (len(st.Held) == 0) {
		t.Fatalf("%+v", st)
	}
}

func cloneSlots(st Slots) Slots {
	st.Held = slices.Clone(st.Held)
	return st
}
