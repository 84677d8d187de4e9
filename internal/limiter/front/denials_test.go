package front

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// What is remembered of an account refuses what the account refused, at any time: no more,
// and no less.
func TestDenialIsWhatTheAccountRemembers(t *testing.T) {
	terms := lease.Terms{Capacity: 100, Interval: 100}
	rapid.Check(t, func(t *rapid.T) {
		now := lease.Millis(rapid.Int64Range(1, 1e12).Draw(t, "now"))
		s := lease.Account{
			Left:    rapid.Int64Range(0, 100).Draw(t, "left"),
			Reset:   now + lease.Millis(rapid.Int64Range(-10, 1000).Draw(t, "reset")),
			Refused: rapid.Bool().Draw(t, "refused"),
		}
		s.NextAsk = s.Reset - lease.Millis(rapid.Int64Range(-10, 1000).Draw(t, "rest"))
		if rapid.Bool().Draw(t, "denied") {
			s.DeniedNeed = rapid.SampledFrom([]int64{1, 2, 50, 100, limit.MaxCount, limit.MaxCount + 1}).Draw(t, "need")
		}
		var d evictedDenials
		if n, ok := denialOf(now, 7, &s); ok {
			d.remember(now, n)
		}
		for _, at := range []lease.Millis{now, (now + s.Reset) / 2, s.Reset - 1, s.Reset} {
			for cost := range int64(103) {
				n := d.find(at, 7)
				refused := n != nil && cost >= int64(n.need)
				if want := at >= now && remembered(&terms, s, at, cost); refused != want && at >= now {
					t.Fatalf("at %d, cost %d: refused %v, by the account %v", at, cost, refused, want)
				}
				if n != nil {
					if again := n.account(&terms); remembered(&terms, again, at, cost) != refused || again.NextAsk != min(s.NextAsk, s.Reset) {
						t.Fatalf("the account that comes back is %+v of %+v", again, s)
					}
				}
			}
		}
		if d.find(now, 8) != nil {
			t.Fatal("a key that was never denied is remembered")
		}
	})
}

// A denial of years limits when the store may be asked again no longer than another one.
func TestDenialOfYears(t *testing.T) {
	const year = lease.Millis(365 * limit.Day / limit.Millisecond)
	s := lease.Account{DeniedNeed: 3, Reset: 1000 + year, NextAsk: 2000}
	n, ok := denialOf(1000, 7, &s)
	if again := n.account(&lease.Terms{Capacity: 100}); !ok || again.NextAsk != 0 || again.Reset != s.Reset || again.DeniedNeed != 3 {
		t.Errorf("%+v", again)
	}
}

// Hardly any is lost while there are places, none that ends later than what took its
// place, and none is remembered twice.
func TestDenialsInTheirPlaces(t *testing.T) {
	const most = 1024
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ keys, lost int }{{most, 0}, {most * 5 / 4, most / 200}, {2 * most, most/2 + most/20}} {
		d := evictedDenials{room: most}
		hashes := make([]uint64, c.keys)
		for i := range hashes {
			hashes[i] = random.Uint64()
			for range 2 {
				d.remember(1, denial{hash: hashes[i], until: lease.Millis(1000 + i), need: 1})
			}
		}
		lost := 0
		for i, hash := range hashes {
			if n := d.find(999, hash); n == nil {
				lost++
			} else if n.until != lease.Millis(1000+i) {
				t.Fatalf("%d was remembered until %d", i, n.until)
			}
		}
		if lost > c.lost {
			t.Errorf("%d of %d were lost where there is room for %d", lost, c.keys, most)
		}
		places := 0
		for _, b := range d.buckets {
			for i := range b {
				if b[i].until > 0 {
					places++
				}
			}
		}
		if places != c.keys-lost {
			t.Errorf("%d places are used for the %d of %d that are remembered", places, c.keys-lost, c.keys)
		}
		if d.take(999, hashes[c.keys-1], &lease.Terms{}); d.find(999, hashes[c.keys-1]) != nil {
			t.Error("what has moved into an entry is remembered here")
		}
	}
}

// Of those that find no place the one that ends first is forgotten, also if that is
// the new one.
func TestFirstToEndIsForgotten(t *testing.T) {
	d := evictedDenials{room: 1}
	for i := range lease.Millis(20) {
		until := 100 + (i*7)%20
		d.remember(1, denial{hash: uint64(i), until: until, need: 1})
	}
	for i := range lease.Millis(20) {
		until := 100 + (i*7)%20
		if known := d.find(1, uint64(i)) != nil; known != (until >= 120-lease.Millis(len(bucket{}))) {
			t.Errorf("remembered until %d: %v", until, known)
		}
	}
	d.remember(200, denial{hash: 77, until: 201, need: 1})
	if d.find(200, 77) == nil {
		t.Error("a denial that is over keeps its place")
	}
}

// remembered reports whether an account refuses a request because of a denial while the
// store does not answer.
func remembered(t *lease.Terms, a lease.Account, now lease.Millis, cost int64) bool {
	return a.Fail(t, now, lease.Failure{}, cost).Denied
}
