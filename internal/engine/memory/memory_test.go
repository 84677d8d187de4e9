package memory_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func policyOf(t testing.TB, spec limit.Spec) *engine.Policy {
	t.Helper()
	l := fatal.Get(limit.New(spec))(t)
	return engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
}

func ask(t testing.TB, s engine.Store, p *engine.Policy, key string, w lease.Want) lease.Grant {
	grants := make([]lease.Grant, 1)
	s.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte(key), Want: w}}, grants)
	return grants[0]
}

var single = lease.Want{Need: 1, Waiting: 1, Want: 1}

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{
		New: func(_ testing.TB, o enginetest.Options) engine.Store {
			return memory.New(memory.Config{MaxKeys: cmp.Or(o.MaxKeys, 100_000), MaxBytes: 1 << 30, Now: o.Now})
		},
	})
}

func TestCell(t *testing.T) {
	enginetest.RunCell(t, func(testing.TB) [2]engine.Cell {
		cell := memory.New(memory.Config{}).NewCell()
		return [2]engine.Cell{cell, cell}
	})
}

// A key of a sliding log has room for all of its charges, window after window, where the store has as much for a key as
// the limit states. Of a larger limit it does not.
func TestRoomOfLog(t *testing.T) {
	now := limit.Day
	for _, denied := range []bool{false, true} {
		spec := limit.Spec{Algorithm: limit.SlidingLog, Count: 3000, Period: limit.Minute, ChargeRejected: denied}
		for part, fits := range map[int64]bool{1: true, 8: false} {
			s := memory.New(memory.Config{MaxKeys: 1, MaxBytes: (spec.LogBytes() + 1<<10) / part, Now: func() limit.Micros { return now }})
			if has := s.KeyBytes() >= spec.LogBytes(); has != fits {
				t.Fatalf("KeyBytes %d, LogBytes %d", s.KeyBytes(), spec.LogBytes())
			}
			p, unavailable := policyOf(t, spec), 0
			for range 20_000 {
				now += limit.Minute / 7000
				if ask(t, s, p, strings.Repeat("k", 200), single).Status == lease.Unavailable {
					unavailable++
				}
			}
			if fits != (unavailable == 0) {
				t.Errorf("charge_rejected: %v: with 1/%d of the room %d of 20,000 are not counted", denied, part, unavailable)
			}
		}
	}
}

// Run forgets what is as good as new, and nothing else.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{MaxKeys: 50_000, MaxBytes: 1 << 30})
		short, long := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 9, Period: limit.Second}), policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 9, Period: limit.Day})
		for i := range 3000 {
			ask(t, s, short, fmt.Sprint(i), single)
		}
		ask(t, s, long, "kept", single)
		go func() { _ = s.Run(t.Context()) }()
		time.Sleep(12 * time.Second)
		if st := s.Stats(); st.Keys != 1 || st.Evicted != 3000 || st.Bytes > 1000 {
			t.Errorf("after 12 s: %+v, want the one key whose window runs", st)
		}
		if g := ask(t, s, long, "kept", single); g.Remaining != 7 {
			t.Errorf("the key whose window runs: %+v", g)
		}
	})
}

// A lease that is out keeps its counter, also when the state alone is as new.
func TestLeasedCounterStays(t *testing.T) {
	now := limit.Day
	s := at(&now, 10)
	p := policyOf(t, limit.Spec{Count: 1000, Period: limit.Second})
	g := ask(t, s, p, "k", lease.Want{Want: 500})
	if g.Granted != 500 {
		t.Fatalf("%+v", g)
	}
	now += 600 * limit.Millisecond // full again, but 500 are out
	s.Sweep(1)
	if st := s.Stats(); st.Keys != 1 {
		t.Errorf("forgotten while 500 units are out for %d ms", g.TTL)
	}
	now += 10 * limit.Second
	s.Sweep(1)
	if st := s.Stats(); st.Keys != 0 {
		t.Errorf("kept after the lease ended: %+v", st)
	}
}

// Logs and holdings count by their length; what would grow them beyond the bound
// is unavailable, and the rest goes on.
func TestBytes(t *testing.T) {
	now := limit.Day
	s := memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20, Now: func() limit.Micros { now++; return now }})
	log := policyOf(t, limit.Spec{Algorithm: limit.SlidingLog, Count: 1_000_000, Period: limit.Day})
	charged, rejected := 0, 0
	for range 300_000 {
		switch g := ask(t, s, log, "log", single); g.Status {
		case lease.OK:
			charged++
		case lease.Unavailable:
			rejected++
		}
	}
	if st := s.Stats(); rejected == 0 || charged < 20_000 || st.Bytes > 1<<20 || st.Rejected != uint64(rejected) {
		t.Errorf("a log in 1 MiB took %d charges and rejected %d: %+v", charged, rejected, st)
	}
	window := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Day})
	keys := 0
	for ask(t, s, window, fmt.Sprint(strings.Repeat("k", 5000), keys), single).Status == lease.OK {
		keys++
	}
	if st := s.Stats(); keys == 0 || keys > 200 || st.Bytes > 1<<20 {
		t.Errorf("beside it %d keys of 5 kB: %+v", keys, st)
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	s := memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 30})
	bucket := policyOf(t, limit.Spec{Count: 1000, Period: limit.Second})
	window := policyOf(t, limit.Spec{Algorithm: limit.SlidingWindow, Count: 1000, Period: limit.Hour})
	slots := policyOf(t, limit.Spec{Algorithm: limit.Concurrency, Count: 10})
	asks := []engine.Ask{
		{Policy: bucket, Key: []byte("a"), Want: single},
		{Policy: bucket, Key: []byte("b"), Group: 1, Want: single},
		{Policy: window, Key: []byte("b"), Group: 1, Want: single},
		{Policy: slots, Key: []byte("c"), Holder: 1, Want: lease.Want{Want: 2, Holding: 1}},
	}
	grants := make([]lease.Grant, len(asks))
	s.Acquire(t.Context(), asks, grants)
	if n := testing.AllocsPerRun(1000, func() {
		asks[3].Seq++
		s.Acquire(t.Context(), asks, grants)
	}); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}
