package memory_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const startOfTest = 20_000*limit.Day + 7*limit.Minute

// at is a store on a clock that stands.
func at(now *limit.Micros, keys int) *memory.Store {
	return memory.New(memory.Config{MaxKeys: keys, MaxBytes: 1 << 30, Now: func() limit.Micros { return *now }})
}

func save(s *memory.Store) (records [][]byte, counters int) {
	counters = s.Save(func(r []byte) { records = append(records, bytes.Clone(r)) })
	return records, counters
}

func load(t testing.TB, s *memory.Store, records [][]byte) *memory.Loader {
	t.Helper()
	l := s.Loader()
	for i, r := range records {
		if err := l.Put(r); err != nil {
			t.Fatalf("record %d of %d: %v", i, len(records), err)
		}
	}
	return l
}

// nextLife is a store of so many keys that has loaded what another one saves.
func nextLife(t testing.TB, s *memory.Store, now *limit.Micros, keys int) (*memory.Store, *memory.Loader) {
	t.Helper()
	records, _ := save(s)
	next := at(now, keys)
	return next, load(t, next, records)
}

var unitSpecs = map[string]limit.Spec{
	"bucket":  {Count: 10, Period: limit.Hour, Burst: 20},
	"fixed":   {Algorithm: limit.FixedWindow, Count: 10, Period: limit.Hour},
	"first":   {Algorithm: limit.FixedWindow, Count: 10, Period: limit.Hour, Align: limit.AlignFirstRequest},
	"sliding": {Algorithm: limit.SlidingWindow, Count: 10, Period: limit.Hour},
	"log":     {Algorithm: limit.SlidingLog, Count: 10, Period: limit.Hour},
	"penalty": {Algorithm: limit.SlidingLog, Count: 10, Period: limit.Hour, ChargeRejected: true},
	"daily":   {Algorithm: limit.SlidingWindow, Count: 1_000_000, Period: limit.Day},
	"month":   perMonth(),
	"blocks":  {Algorithm: limit.SlidingWindow, Count: 10, Period: limit.Hour, Block: 2 * limit.Hour, Reserves: true},
}

func perMonth() limit.Spec {
	c := limit.Calendar{Per: limit.PerMonth, Anchor: 31, Zone: "Europe/Berlin"}
	c.Windows, _ = calendar.Windows(c) // there is this zone
	return limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: c.Per.Period(), Calendar: &c}
}

// What is saved and loaded again answers every later ask as the store that it came from,
// to the last unit and millisecond.
func TestSavedCountersGoOn(t *testing.T) {
	long := string(bytes.Repeat([]byte("k"), 200))
	for name, spec := range unitSpecs {
		t.Run(name, func(t *testing.T) {
			now := limit.Micros(startOfTest)
			p := policyOf(t, spec)
			s := at(&now, 1000)
			keys := []string{"", "a", "b", long}
			for i := range 40 {
				key := keys[i%len(keys)]
				g := ask(t, s, p, key, lease.Want{Need: 1, Waiting: 1, Want: int64(1 + i%4), Fresh: i%3 == 0})
				if i%7 == 6 {
					ask(t, s, p, key, lease.Want{Unused: g.Granted, Lease: g.Lease, Overdrawn: int64(i % 2)})
				}
				now += limit.Minute + 7
			}
			records, counters := save(s)
			if counters != len(keys) {
				t.Fatalf("%d counters saved, want %d", counters, len(keys))
			}
			again := at(&now, 1000)
			if l := load(t, again, records); l.Loaded != len(keys) || l.Fresh+l.NoRoom > 0 {
				t.Fatalf("%+v", l)
			}
			if a, b := s.Stats(), again.Stats(); a.Keys != b.Keys {
				t.Errorf("%d keys became %d", a.Keys, b.Keys)
			}
			for i := range 60 { // Fresh: the askers of before are not saved
				now += limit.Minute + 3
				w := lease.Want{Need: 1, Waiting: 1, Want: 1, Fresh: true, Unused: int64(i % 2), Lease: uint32((now - limit.Hour/2) / limit.Millisecond)}
				for _, key := range keys {
					if a, b := ask(t, s, p, key, w), ask(t, again, p, key, w); a != b {
						t.Fatalf("ask %d of %q: %+v, and %+v after loading", i, key, a, b)
					}
				}
			}
		})
	}
}

// Holdings and what holders stated last go on, too.
func TestSavedSlotsGoOn(t *testing.T) {
	now := limit.Micros(startOfTest)
	p := policyOf(t, limit.Spec{Algorithm: limit.Concurrency, Count: 5})
	s := at(&now, 1000)
	hold := func(s *memory.Store, who, seq uint64, holding, need int64) lease.Grant {
		grants := make([]lease.Grant, 1)
		s.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte("k"), Holder: who, Seq: seq,
			Want: lease.Want{Need: need, Waiting: need, Want: holding + need, Holding: holding}}}, grants)
		return grants[0]
	}
	hold(s, 7, 3, 0, 2)
	now += limit.Second
	hold(s, 9, 1, 0, 2)
	again, _ := nextLife(t, s, &now, 1000)
	for i, c := range []struct {
		who, seq      uint64
		holding, need int64
		after         limit.Micros
	}{{11, 1, 0, 2, 0}, {7, 2, 0, 1, 0}, {7, 4, 2, 0, 0}, {9, 2, 2, 1, limit.Second}, {11, 2, 0, 3, 9 * limit.Second}, {12, 1, 0, 5, 20 * limit.Second}} {
		now += c.after
		if a, b := hold(s, c.who, c.seq, c.holding, c.need), hold(again, c.who, c.seq, c.holding, c.need); a != b {
			t.Errorf("statement %d: %+v, and %+v after loading", i, a, b)
		}
	}
}

// A debt that has been charged is not charged again when it is reported to the next life.
func TestSavedDebtsAreCharged(t *testing.T) {
	now := limit.Micros(startOfTest)
	p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10_000, Period: limit.Day})
	s := at(&now, 10_000)
	for i := range uint64(1200) { // in several records
		ask(t, s, p, "k", lease.Want{Overdrawn: 1, Debt: 1 + i})
	}
	s, _ = nextLife(t, s, &now, 10_000)
	for i := range uint64(1201) {
		ask(t, s, p, "k", lease.Want{Overdrawn: 1, Debt: 1 + i})
	}
	if g := ask(t, s, p, "k", lease.Want{}); g.Remaining != 10_000-1201 {
		t.Errorf("%d left after 1200 debts that were reported twice and one more, want %d", g.Remaining, 10_000-1201)
	}
}

// A counter is named by what named it before: changed counts go on, another shape begins
// anew, and what no rule names any more waits until it is as good as new.
func TestLoadingUnderOtherRules(t *testing.T) {
	now := limit.Micros(startOfTest)
	ten := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Hour})
	s := at(&now, 1000)
	ask(t, s, ten, "k", lease.Want{Need: 4, Waiting: 4, Want: 4})
	ask(t, s, policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Minute}), "k", single)
	records, _ := save(s)
	now += 2 * limit.Minute
	s = at(&now, 1000)
	if l := load(t, s, records); l.Loaded != 1 || l.Fresh != 1 {
		t.Errorf("%+v, want one loaded, and one whose window is over", l)
	}
	if g := ask(t, s, policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 7, Period: limit.Hour}), "k", single); g.Remaining != 2 {
		t.Errorf("7/1h in place of 10/1h, of which 4 were spent: %+v, want 2 left after one", g)
	}
	if g := ask(t, s, policyOf(t, limit.Spec{Algorithm: limit.SlidingWindow, Count: 10, Period: limit.Hour}), "k", single); g.Remaining != 9 {
		t.Errorf("another algorithm: %+v, want a new counter", g)
	}
	now += limit.Day
	s.Sweep(1)
	if st := s.Stats(); st.Keys != 0 {
		t.Errorf("a day later %d counters are kept", st.Keys)
	}
}

// A smaller store takes what it has room for.
func TestLoadingIntoASmallerStore(t *testing.T) {
	now := limit.Micros(startOfTest)
	p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Hour})
	s := at(&now, 100)
	for i := range 100 {
		ask(t, s, p, fmt.Sprint(i), single)
	}
	if _, l := nextLife(t, s, &now, 10); l.Loaded != 10 || l.NoRoom != 90 {
		t.Errorf("%+v, want 10 loaded and no room for 90", l)
	}
}

// Saves beside decisions: each counter is saved as it was at one moment.
func TestSaveUnderLoad(t *testing.T) {
	now := limit.Micros(startOfTest)
	s := at(&now, 10_000)
	policies := []*engine.Policy{policyOf(t, unitSpecs["log"]), policyOf(t, unitSpecs["fixed"])}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 4000 {
				ask(t, s, policies[i%2], fmt.Sprint((i+worker)%300), lease.Want{Need: 1, Waiting: 1, Want: 1, Overdrawn: 1, Debt: uint64(1 + i)})
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for saves := 0; ; saves++ {
		again, _ := nextLife(t, s, &now, 10_000)
		select {
		case <-done:
			again, _ = nextLife(t, s, &now, 10_000)
			for i := range 300 {
				for _, p := range policies {
					if a, b := ask(t, s, p, fmt.Sprint(i), lease.Want{}), ask(t, again, p, fmt.Sprint(i), lease.Want{}); a != b {
						t.Fatalf("%d: %+v, and %+v after loading", i, a, b)
					}
				}
			}
			return
		default:
			again.Sweep(1)
		}
	}
}

// FuzzLoad: whatever records hold, the store that took them goes on to decide, within its
// limit.
func FuzzLoad(f *testing.F) {
	now := limit.Micros(startOfTest)
	for _, spec := range unitSpecs {
		s := at(&now, 100)
		p := policyOf(f, spec)
		ask(f, s, p, "k", lease.Want{Need: 2, Waiting: 2, Want: 5})
		ask(f, s, p, "k", lease.Want{Need: 1, Waiting: 1, Want: 1})
		records, _ := save(s)
		f.Add(slices.Concat(records...))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		s := at(&now, 100)
		l := s.Loader()
		if l.Put(record) != nil {
			return
		}
		for _, spec := range unitSpecs {
			p := policyOf(t, spec)
			for range 3 {
				if g := ask(t, s, p, "k", lease.Want{Need: 1, Waiting: 1, Want: 3, Unused: 1}); g.Granted < 0 || g.Granted > 3 || g.Remaining < 0 || g.Remaining > p.Terms.Capacity {
					t.Fatalf("%+v of %+v", g, spec)
				}
			}
		}
		records, _ := save(s)
		slices.Reverse(records)
		for _, r := range records {
			_ = s.Loader().Put(r) // counters before their policies
		}
	})
}
