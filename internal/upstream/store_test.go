package upstream_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// A region that is cut off in the middle of a window goes on at its share of the rate, and has its whole share
// of each window that begins later. The window that runs when it is back is its own until it ends, beside what
// the aggregator grants.
func TestCutOff(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		time.Sleep(10 * time.Second)
		w.spends(p, 400, "while connected")
		w.link(false)
		w.admits(p, 30*time.Second, 45, 50, "in half a window after the cut, want a share of the rate: 50")
		if owed := w.global.debts["r"]; owed < 45 || owed > 50 {
			t.Errorf("%d units are reported as a debt", owed)
		}
		time.Sleep(30 * time.Second)
		w.spends(p, 100, "of the next window")
		time.Sleep(time.Minute)
		owes := need(p, 40) // of another window
		owes.Want.Overdrawn = 5
		if g := w.acquire(owes)[0]; g.Granted != 40 || !g.StillOwed {
			t.Errorf("%+v, want that what is owed stays owed", g)
		}
		w.link(true)
		time.Sleep(5 * time.Second)
		w.spends(p, 360, "after the region is back")
		time.Sleep(time.Minute)
		w.spends(p, 400, "of the next window")
		if owed := w.global.debts["r"]; owed > 50 {
			t.Errorf("%d units are owed: the reserve is none", owed)
		}
	})
}

// While wants are not decided in time nobody renounces, though calls are answered; but a single late answer changes
// nothing but that want.
func TestUndecided(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		time.Sleep(9 * time.Second)
		w.late = true
		g := w.acquire(need(p, 1))[0]
		w.late = false
		if g.Status != lease.Denied || g.AskAfter > 100 || g.RetryAfter > 1000 {
			t.Errorf("a late answer: %+v, want a retry when the share of the rate brings a unit", g)
		}
		time.Sleep(2 * time.Second)
		w.spends(p, 400, "of the window")
		w.late = true
		w.admits(p, 45*time.Second, 70, 75, "in 45 s, want a share of the rate: 75")
		w.during(p, 10*time.Second)
		w.admits(p, 55*time.Second, 100, 107, "want the share of 100 of the next window, and that of the rate for four seconds")
		w.late = false
		time.Sleep(time.Minute)
		w.spends(p, 400, "when wants are decided again")
	})
}

// A client is never told to come back at the end of a long window because nobody decided.
func TestRetryAfter(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour})
		w.link(false)
		g := w.acquire(need(p, 1))[0]
		if g.Status != lease.Denied || g.RetryAfter != 10_000 || g.AskAfter != 100 {
			t.Errorf("%+v, want a retry in 10 s", g)
		}
		fast := w.policy("fast", limit.Spec{Algorithm: limit.FixedWindow, Count: 28_800, Period: limit.Hour})
		if g := w.acquire(need(fast, 4))[0]; g.Status != lease.Denied || g.RetryAfter != 2000 {
			t.Errorf("%+v, want a retry when the share of the rate has brought 4 units", g)
		}
		time.Sleep(5 * time.Minute)
		if g := w.acquire(need(p, 1))[0]; g.Granted != 1 {
			t.Errorf("%+v after the time that brings two units", g)
		}
	})
}

// A token bucket is used at the share of its rate, up to the share of its burst, from the moment of the cut on.
func TestBucket(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", limit.Spec{Count: 40, Period: limit.Second, Burst: 400})
		w.link(false)
		w.spend(p)
		w.admits(p, 20*time.Second, 180, 200, "in 20 s, want a share of the rate: 200")
		time.Sleep(time.Minute)
		w.admits(p, time.Millisecond, 0, 100, "after a pause, want at most the share of the burst, 100")
	})
}

// alternating is windows of 50 and of 70 s.
type alternating struct{}

func (alternating) Around(at limit.Micros) *[6]limit.Micros {
	pair, first := at-at%(2*limit.Minute), 0
	if at-pair >= 50*limit.Second {
		first = 1
	}
	var b [6]limit.Micros
	for i, seconds := range []limit.Micros{-70, 0, 50, 120, 170, 240, 290}[first : first+len(b)] {
		b[i] = pair + seconds*limit.Second
	}
	return &b
}

// Of windows of a calendar the region has its share each, however long they are; of one that it has renounced, its
// share of the rate by that window's length.
func TestCalendar(t *testing.T) {
	for _, count := range []int64{400, 80} {
		inWorld(t, func(w *region) {
			p := w.policy("r", limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Day, Calendar: &limit.Calendar{Zone: "UTC", Windows: alternating{}}})
			time.Sleep(5 * time.Second) // a window of 70 s has begun
			w.link(false)
			if got, want := w.during(p, 60*time.Second), count/4*60/70; got < want*9/10 || got > want {
				t.Errorf("%d of %d units in 60 s of a window of 70 s that was renounced, want its share of the rate, %d", got, count, want)
			}
			for _, length := range []time.Duration{50, 70} {
				time.Sleep(6 * time.Second)
				if got := w.spend(p); got != count/4 {
					t.Errorf("%d of %d units of a later window of %d s, want the share", got, count, length)
				}
				time.Sleep(length*time.Second - 6*time.Second)
			}
		})
	}
}

// Limits that look back: a window is the region's if it has the one before, too.
func TestLooksBack(t *testing.T) {
	for name, s := range map[string]limit.Spec{
		"sliding_window": {Algorithm: limit.SlidingWindow, Count: 400, Period: limit.Minute},
		"sliding_log":    {Algorithm: limit.SlidingLog, Count: 400, Period: limit.Minute},
		"first_request":  {Algorithm: limit.FixedWindow, Align: limit.AlignFirstRequest, Count: 400, Period: limit.Minute},
	} {
		inWorld(t, func(w *region) {
			p := w.policy("r", s)
			time.Sleep(5 * time.Second)
			w.link(false)
			time.Sleep(15 * time.Second) // a minute begins
			w.admits(p, 45*time.Second, 65, 100, name+": in a window that follows one that was renounced, want a share of the rate: 75")
			time.Sleep(2 * time.Minute)
			w.spends(p, 100, name+": of a later window")
		})
	}
}

// What comes back goes to the counter that granted it.
func TestReturns(t *testing.T) {
	for name, s := range map[string]limit.Spec{
		"window": perMinute(400), "sliding window": {Algorithm: limit.SlidingWindow, Count: 400, Period: limit.Minute},
		"log": {Algorithm: limit.SlidingLog, Count: 400, Period: limit.Minute},
	} {
		inWorld(t, func(w *region) {
			p := w.policy("r", s)
			back := func(g lease.Grant) {
				w.acquire(engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Unused: g.Granted, Lease: g.Lease}})
			}
			far := w.acquire(need(p, 10))[0]
			w.link(false)
			if w.acquire(need(p, 1)); s.Algorithm == limit.FixedWindow {
				time.Sleep(9 * time.Second)
				trickled := w.acquire(need(p, 10))[0]
				back(trickled)
				if got := w.spend(p); trickled.Granted != 10 || got < 10 || got > 15 {
					t.Errorf("%s: %d units came in, and there are %d after they were given back", name, trickled.Granted, got)
				}
			}
			time.Sleep(2 * time.Minute)
			own := w.acquire(need(p, 10))[0]
			if far.Granted != 10 || own.Granted != 10 || far.Lease == own.Lease {
				t.Fatalf("%s: %+v and %+v", name, far, own)
			}
			w.acquire(need(p, 1), engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Unused: own.Granted, Lease: own.Lease}}, need(p, 1))
			w.spends(p, 98, name+": of the reserve, which came back with two asks")
			w.link(true)
			time.Sleep(5 * time.Second)
			rest := w.spend(p)
			back(own)
			if got := w.spend(p); got != 0 && s.Algorithm == limit.FixedWindow {
				t.Errorf("%s: %d units came back to the aggregator, which granted %d and not these", name, got, rest)
			}
		})
	}
	inWorld(t, func(w *region) { // the leases of a bucket have no period
		p := w.policy("r", limit.Spec{Count: 40, Period: limit.Second, Burst: 400})
		w.link(false)
		w.spend(p)
		time.Sleep(8 * time.Second)
		own := w.acquire(need(p, 40))[0]
		w.link(true)
		time.Sleep(30 * time.Second)
		w.acquire(engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Unused: own.Granted, Lease: own.Lease}})
		if own.Granted != 40 || w.returned.Load() != 0 {
			t.Errorf("%+v, of which %d units were given back to the aggregator", own, w.returned.Load())
		}
	})
}

// Of a request with several limits nothing is charged if one of them denies it.
func TestGroups(t *testing.T) {
	inWorld(t, func(w *region) {
		wide, small, slow := w.policy("wide", perMinute(400)), w.policy("small", perMinute(8)), w.policy("slow", limit.Spec{Count: 80, Period: limit.Minute})
		all := func(p ...*engine.Policy) bool {
			var asks []engine.Ask
			for _, one := range p {
				a := need(one, 1)
				a.Group = 1
				asks = append(asks, a)
			}
			return !slices.ContainsFunc(w.acquire(asks...), func(g lease.Grant) bool { return g.Granted != 1 })
		}
		w.link(false)
		time.Sleep(70 * time.Second)
		for i := range 5 {
			if got := all(wide, small); got != (i < 2) {
				t.Errorf("request %d: %v", i, got)
			}
		}
		if !all(wide, slow) {
			t.Error("nothing has come in for a bucket in a minute")
		}
		w.spends(wide, 97, "are left of 100")
		time.Sleep(70 * time.Second)
		if !all(wide, small, slow) {
			t.Error("ten seconds bring three units to the bucket")
		}
		w.link(true)
		time.Sleep(3 * time.Second)
		w.spend(wide)
		w.acquire(need(wide, 1), need(small, 6))
		w.spends(small, 1, "of the reserve are left")
	})
}

// A rule that the aggregator lacks goes on by trickle alone, and the region renounces as ever.
func TestAggregatorLacksARule(t *testing.T) {
	inWorld(t, func(w *region) {
		p, other := w.policy("new", perMinute(400)), w.policy("other", perMinute(400))
		w.unknownRule = "new"
		time.Sleep(10 * time.Second)
		for range 2 {
			w.admits(p, time.Minute, 95, 100, "in a minute, want a share of the rate: 100")
		}
		if got := w.spend(other); got != 400 || w.keeper.InUse() {
			t.Errorf("%d units of another rule, want all 400; the reserve is in use: %v", got, w.keeper.InUse())
		}
	})
}

// Without a record that can be read nothing is taken from the reserve, and on_failure decides: by this replica's part of
// the region's share.
func TestRecordAway(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		w.cell.fails.Store(true)
		w.link(false)
		time.Sleep(70 * time.Second)
		a := need(p, 1)
		if g := w.acquire(a)[0]; g.Status != lease.Unavailable {
			t.Errorf("%+v", g)
		}
		if j := w.store.Fall(&a, 3); j.Grant.Remaining != 12 {
			t.Errorf("a limit is divided by %d, want 12: a quarter of it among 3 replicas", j.Grant.Remaining)
		}
		p.Regions = p.Regions[1:] // of which the record, that is older, knows nothing
		if j := w.store.Fall(&a, 0); j.Grant.Remaining != 4 {
			t.Errorf("a limit is divided by %d, want 4", j.Grant.Remaining)
		}
		w.cell.fails.Store(false)
		time.Sleep(time.Second)
		w.spends(p, 100, "with the record")
	})
}

// A window that the region's store charged under another label, because its clock is another one than that of the record, is
// not one for which there is permission. What the region admits at its share of the rate is charged in the window that it
// has renounced, or not at all: in another one it may use its reserve.
func TestClocksOfStoreAndRecord(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		w.link(false)
		time.Sleep(70 * time.Second)
		w.spends(p, 100, "of the reserve")
		w.ahead = 5 * limit.Minute
		w.spends(p, 0, "by a clock that is ahead")
	})
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		time.Sleep(15 * time.Second)
		w.link(false)
		w.acquire(need(p, 1))
		time.Sleep(30 * time.Second)
		w.ahead = limit.Minute
		w.spends(p, 0, "of the window after, by a clock that is ahead")
	})
}

// A flood on one key asks the region's store ten times a second.
func TestFlood(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		w.link(false)
		w.acquire(need(p, 1))
		before := w.counted
		for range 1000 {
			w.acquire(need(p, 1))
			time.Sleep(5 * time.Millisecond)
		}
		if asks := w.counted - before; asks < 40 || asks > 60 {
			t.Errorf("%d asks in 5 s, want 50", asks)
		}
	})
}
