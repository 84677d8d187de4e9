package limit

import (
	"math/rand/v2"
	"testing"
)

// locked is a counter of a limit that blocks, on a clock that the test moves.
type locked struct {
	*testing.T
	limit *Limit
	state State
	lock  Lockout
	now   Micros
	lease uint32 // of the last grant
}

func newLocked(t *testing.T, s Spec) *locked {
	s.Block = 10 * Minute
	return &locked{T: t, limit: mustNew(t, s), now: 19_700 * Day}
}

// asks asks for one unit, and demands what comes of it.
func (l *locked) asks(granted int64, block Block, retry Micros) {
	l.Helper()
	d := l.limit.DecideBlocking(&l.state, &l.lock, l.now, Ask{Need: 1, Waiting: 1, Want: 1})
	if d.Granted != granted || d.Block != block || retry >= 0 && d.RetryAfter != retry {
		l.Fatalf("granted %d, block %d, retry after %d µs; want %d, %d and %d", d.Granted, d.Block, d.RetryAfter, granted, block, retry)
	}
	if d.Granted > 0 {
		l.lease = l.limit.PeriodID(d.Period)
	} else if d.Remaining != 0 {
		l.Fatalf("denied, and %d remain", d.Remaining)
	}
}

// returns ends a reservation of the last grant. What does not count comes back.
func (l *locked) returns(counts bool) {
	if !counts {
		l.state, _ = l.limit.Return(l.state, l.now, l.limit.PeriodFromID(l.now, l.lease), 1)
	}
	l.limit.Settle(&l.lock, l.lease, 1)
}

// blocking are limits of five units.
var blocking = map[string]Spec{
	"token bucket":   {Count: 5, Period: Minute},
	"fixed window":   {Algorithm: FixedWindow, Count: 5, Period: Minute},
	"first request":  {Algorithm: FixedWindow, Count: 5, Period: Minute, Align: AlignFirstRequest},
	"sliding window": {Algorithm: SlidingWindow, Count: 5, Period: Minute},
	"sliding log":    {Algorithm: SlidingLog, Count: 5, Period: Minute},
}

// The request after the last unit begins a block, which ends when it is over, whatever the window does.
func TestBlock(t *testing.T) {
	for name, s := range blocking {
		t.Run(name, func(t *testing.T) {
			l := newLocked(t, s)
			for range 5 {
				l.asks(1, 0, 0)
			}
			l.asks(0, BlockBegan, 10*Minute)
			for left := 10*Minute - Second; left > 0; left -= Second {
				l.now += Second
				l.asks(0, Blocked, left)
			}
			l.now += Second
			l.asks(1, 0, 0)
		})
	}
}

// A denial for want of units that are reserved begins no block; one for want of units that count does.
func TestReservationsBlockNobody(t *testing.T) {
	for name, s := range blocking {
		if s.Algorithm == SlidingLog {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s.Reserves = true
			l := newLocked(t, s)
			for range 5 {
				l.asks(1, 0, 0)
			}
			l.asks(0, 0, Second)
			l.returns(false)
			l.asks(1, 0, 0)
			for range 4 {
				l.returns(true)
				l.asks(0, 0, Second)
			}
			l.returns(true)
			l.asks(0, BlockBegan, 10*Minute)
		})
	}
}

// Units reserved in the window before still count in part, and so their reservations are known; lost ones are forgotten with
// their units.
func TestReservationsOfTheWindowBefore(t *testing.T) {
	l := newLocked(t, Spec{Algorithm: SlidingWindow, Count: 5, Period: Minute, Reserves: true})
	for range 5 {
		l.asks(1, 0, 0)
	}
	l.now += Minute + 13*Second // four of the five count
	l.asks(1, 0, 0)
	l.asks(0, 0, Second)
	l.now += 2 * Minute
	for range 5 {
		l.asks(1, 0, 0)
		l.returns(true)
	}
	l.asks(0, BlockBegan, 10*Minute)
}

// Of a limit whose units are partly kept for others, a denial begins a block if the whole limit is used up.
func TestKeptUnitsBlockNobody(t *testing.T) {
	for kept, block := range []Block{BlockBegan, 0} {
		l := newLocked(t, Spec{Algorithm: FixedWindow, Count: 1, Period: Minute, Kept: int64(kept)})
		l.asks(1, 0, 0)
		l.asks(0, block, -1)
	}
	l := newLocked(t, Spec{Algorithm: FixedWindow, Period: Minute})
	l.asks(0, 0, Never) // a limit of nothing is never used up
}

// A block that is shortened in the rules, or that a wrong clock began, is not longer than the rule's.
func TestBlockIsNoLongerThanTheRules(t *testing.T) {
	l := newLocked(t, blocking["fixed window"])
	l.lock.Ends = l.now + Day
	l.asks(0, Blocked, 10*Minute)
	l.now += Minute
	l.asks(0, Blocked, 9*Minute)
}

// Whatever comes, a key is never blocked while fewer units than the limit are charged and not reserved.
func TestBlockOfRandomTraces(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLocked(t, Spec{Algorithm: FixedWindow, Count: 5, Period: Hour, Reserves: true})
		open, counted := 0, 0
		for range 100 {
			switch n := r.IntN(3); {
			case n == 0 && open > 0:
				open, counted = open-1, counted+1
				l.returns(true)
			case n == 1 && open > 0:
				open--
				l.returns(false)
			default:
				d := l.limit.DecideBlocking(&l.state, &l.lock, l.now, Ask{Need: 1, Waiting: 1, Want: 1})
				if l.lock.Open != int64(open)+d.Granted || (d.Block > 0) != (counted == 5) || (d.Granted > 0) != (open+counted < 5) {
					t.Fatalf("seed %d: %d reserved and %d counted: %+v, %+v", seed, open, counted, d, l.lock)
				}
				if open += int(d.Granted); d.Granted > 0 {
					l.lease = l.limit.PeriodID(d.Period)
				}
			}
		}
	}
}
