package memory

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// charged reports whether a debt is charged that is reported now.
func (d *debts) charged(at limit.Micros, counter, name uint64) bool {
	return !d.note(at, debt{counter, name})
}

// A debt is remembered for ten minutes at least after it was reported last, and is reported anew
// after twenty.
func TestDebtsAreRemembered(t *testing.T) {
	var d debts
	now := limit.Day
	if !d.charged(now, 1, 7) || d.charged(now, 1, 7) || !d.charged(now, 2, 7) || !d.charged(now, 1, 8) {
		t.Error("each debt of each counter is charged once")
	}
	for range 30 {
		if now += debtMemory - 1; d.charged(now, 1, 7) {
			t.Fatal("charged a second time, though it is reported again and again")
		}
	}
	now += 2 * debtMemory
	d.charged(now, 3, 1)
	now += debtMemory
	if d.charged(now, 3, 1) || !d.charged(now, 1, 7) {
		t.Error("a debt that nobody reported for half an hour is remembered, or a younger one is not")
	}
	if d.charged(now-limit.Hour, 3, 1) {
		t.Error("a clock that steps back makes it forget at once")
	}
}

// However many debts there are, memory is bounded, and the newest are remembered.
func TestDebtsAreBounded(t *testing.T) {
	for bytes, most := range map[int64]int{1: leastDebts, 16 << 20: 16 << 10, 1 << 30: mostDebts} {
		d := &New(Config{MaxKeys: 1, MaxBytes: bytes}).debts
		for n := range 3 * most {
			if !d.charged(limit.Day, 1, uint64(n+1)) || len(d.now)+len(d.before) > 2*most {
				t.Fatalf("%d bytes: debt %d of %d and %d", bytes, n, len(d.now), len(d.before))
			}
		}
		for n := 3*most - most/2; n < 3*most; n++ {
			if d.charged(limit.Day, 1, uint64(n+1)) {
				t.Fatalf("%d bytes: debt %d is forgotten", bytes, n)
			}
		}
	}
}

// A record whose numbers its limit cannot have is an error, and nothing of it is loaded.
func TestBadRecords(t *testing.T) {
	l := New(Config{MaxKeys: 9, MaxBytes: 1 << 20}).Loader()
	const window, log, slots = 1, 2, 3
	for number, algorithm := range map[uint64]limit.Algorithm{window: limit.FixedWindow, log: limit.SlidingLog, slots: limit.Concurrency} {
		of := fatal.Get(limit.New(limit.Spec{Algorithm: algorithm, Count: 9, Period: limit.Day}))(t)
		fatal.If(t, l.load(&saved{Number: number, Policy: saveOf(engine.NewPolicy("r", 0, of, lease.Terms{}))}))
	}
	at := l.now
	counter := func(policy uint64, s limit.State) *saved {
		return &saved{Number: policy, Counter: live(granter.Counter{State: s})}
	}
	held := func(policy uint64, stated []granter.Statement, held ...limit.Holding) *saved {
		return &saved{Number: policy, Slots: &granter.Slots{Held: limit.Slots{At: at, Held: held}, Stated: stated}}
	}
	for what, record := range map[string]*saved{
		"no policy":             counter(9, limit.State{At: at, Level: 1}),
		"an impossible policy":  {Number: 9, Policy: &savedPolicy{Spec: limit.Spec{Count: -1}}},
		"a level below zero":    counter(window, limit.State{At: at, Level: -1}),
		"a time out of range":   counter(window, limit.State{At: maxNumber, Level: 1}),
		"a time below zero":     counter(window, limit.State{At: -1, Level: 1}),
		"slots that are none":   counter(slots, limit.State{At: at, Level: 1}),
		"a log of a window":     counter(window, limit.State{At: at, Level: 1, Log: []limit.Charge{{At: at, Sum: 1}}}),
		"a log without entries": counter(log, limit.State{At: at, Level: 1}),
		"a log out of order":    counter(log, limit.State{At: at, Level: 2, Log: []limit.Charge{{At: at, Sum: 1}, {At: at - 1, Sum: 2}}}),
		"sums that fall":        counter(log, limit.State{At: at, Level: 1, Log: []limit.Charge{{At: at, Sum: 2}, {At: at, Sum: 1}}}),
		"less than its level":   counter(log, limit.State{At: at, Level: 2, Log: []limit.Charge{{At: at, Sum: 1}}}),
		"slots of a window":     held(window, nil),
		"one holder twice":      held(slots, nil, limit.Holding{ID: 1, Units: 1}, limit.Holding{ID: 1, Units: 1}),
		"too many slots":        held(slots, nil, limit.Holding{ID: 1, Units: limit.MaxSlots + 1}),
		"statements twice":      held(slots, []granter.Statement{{Holder: 1}, {Holder: 1}}),
	} {
		if err := l.load(record); err == nil || l.Loaded > 0 {
			t.Errorf("%s: %v, %+v", what, err, l)
		}
	}
	fatal.If(t, l.load(counter(log, limit.State{At: at, Level: 1, Aux: 1, Log: []limit.Charge{{At: at, Sum: 5}, {At: at, Sum: 6}}})))
	fatal.If(t, l.load(held(slots, []granter.Statement{{Holder: 1}, {Holder: 2}}, limit.Holding{ID: 1, Units: limit.MaxSlots, Until: at + limit.Day})))
	fatal.If(t, l.load(&saved{Number: 99})) // of a later release
	if l.Loaded != 2 {
		t.Errorf("%+v", l)
	}
	r := newRecords()
	r.encode(counter(window, limit.State{At: at, Level: 1}))
	if half := l.Put(r.made.Bytes()[:r.made.Len()-1]); half == nil || l.Loaded != 2 {
		t.Errorf("half a record: %v, %+v", half, l)
	}
}
