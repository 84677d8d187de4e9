package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

var perTenSeconds = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 10 * limit.Second}

// farStory is a holder 100 ms from its granter and back, with 75 requests per second, in a window that
// ends at 10,000.
func farStory(t *testing.T, lots ...Lot) *story {
	s := newStory(t, perTenSeconds, Leased)
	s.terms = s.terms.Afar()
	s.account = Account{Rate: 75, trip: 100, Asked: 9000, Spent: 20, Size: 40, Left: 500, Reset: 10_000}
	copy(s.account.Lots[:], lots)
	return s
}

// A denial until the end of the window does not keep a far holder from asking for the next one, once
// in a pause: without it all requests of a window's first trip would wait.
func TestAheadOfADeniedWindow(t *testing.T) {
	s := farStory(t)
	s.want, s.sent = s.account.Ask(&s.terms, 9100, 0, 0, TopUp), 9100
	s.reply(9200, Grant{Status: Denied, RetryAfter: 800, AskAfter: 800, Limit: 1000, Reset: 800})
	s.account.Deny(&s.terms, 9200, 5)
	if at := s.account.RenewAt(&s.terms, 9200); at != 9700 {
		t.Fatalf("looks again at %d, not when the next window can be asked for; %+v", at, s.account)
	}
	for now, asks := range map[Millis]Asks{9200: NoAsk, 9699: NoAsk, 9700: Ahead} {
		if got := s.account.askBehind(&s.terms, now); got != asks {
			t.Errorf("at %d asks %d, not %d", now, got, asks)
		}
	}
	s.want, s.sent = s.account.Ask(&s.terms, 9700, 0, 0, Ahead), 9700
	s.reply(9760, Grant{Status: Denied, AskAfter: 240, RetryAfter: 240, Reset: 240})
	for now, asks := range map[Millis]Asks{9760: NoAsk, 9799: NoAsk, 9800: Ahead} {
		if got := s.account.askBehind(&s.terms, now); got != asks {
			t.Errorf("denied again, at %d it asks %d, not %d", now, got, asks)
		}
	}
	near := farStory(t)
	near.terms.Far = false
	near.account.DeniedNeed, near.account.NextAsk = 1, 10_000
	if got := near.account.askBehind(&near.terms, 9900); got != NoAsk {
		t.Errorf("a near holder asks %d while it pauses", got)
	}
}

// A lease of the running window that ends by its ttl while it travels lasts until the lease of the next
// window begins.
func TestLeaseLastsUntilTheNextBegins(t *testing.T) {
	next := Lot{Units: 30, From: 10_001, Expiry: 11_000, TTL: 1000, Lease: 8}
	s := farStory(t, next)
	s.want, s.sent = s.account.Ask(&s.terms, 9850, 0, 0, TopUp), 9850
	s.reply(9950, Grant{Status: OK, Granted: 20, Lease: 7, TTL: 90, Limit: 1000, Remaining: 1, Reset: 50})
	if got := s.account.Available(10_000); got != 20 {
		t.Errorf("%d units until the window ends; %+v", got, s.account)
	}
	if got := s.account.Available(10_001); got != 30 {
		t.Errorf("%d units of the next window; %+v", got, s.account)
	}
	s = farStory(t)
	s.want, s.sent = s.account.Ask(&s.terms, 9850, 0, 0, TopUp), 9850
	if back := s.reply(9950, Grant{Status: OK, Granted: 20, Lease: 7, TTL: 90, Limit: 1000, Remaining: 1, Reset: 50}); back.Units != 20 {
		t.Errorf("without a next lease %+v goes back", back)
	}
}

// Near the end of a window a far holder asks for what is missing until then while the answer still
// comes in time, and for nothing later.
func TestAsksWhileItHelps(t *testing.T) {
	next := Lot{Units: 30, From: 10_001, Expiry: 11_000, TTL: 1000, Lease: 8}
	for _, c := range []struct {
		now   Millis
		units int64
		asks  Asks
	}{
		{9799, 28, NoAsk}, {9810, 27, TopUp}, {9810, 28, NoAsk}, {9899, 10, TopUp}, {9900, 10, NoAsk}, {9990, 1, NoAsk},
	} {
		s := farStory(t, Lot{Units: c.units, Expiry: 10_000, TTL: 1000, Lease: 7}, next)
		if got := s.account.askBehind(&s.terms, c.now); got != c.asks {
			t.Errorf("at %d with %d units asks %d, not %d", c.now, c.units, got, c.asks)
		}
	}
}

// How long a request may wait for the next window instead of an answer from far above.
func TestNextIn(t *testing.T) {
	s := farStory(t, Lot{Units: 30, From: 10_001, Expiry: 11_000, TTL: 1000, Lease: 8})
	for now, in := range map[Millis]Millis{9900: 0, 9901: 100, 10_000: 1, 10_001: 0} {
		if got, units := s.account.Next(&s.terms, now); got != in || (units == 30) != (in > 0) {
			t.Errorf("at %d: %d with %d units, not %d", now, got, units, in)
		}
	}
}

// A report of a key in use asks as well, for what is missing: no other ask may be out beside it.
func TestAskAlong(t *testing.T) {
	full := Lot{Units: 300, Expiry: 12_000, TTL: 3000, Lease: 7}
	for name, c := range map[string]struct {
		change func(a *Account)
		now    Millis
		asks   Asks
	}{
		"little is left":      {func(*Account) {}, 9200, TopUp},
		"the window ends":     {func(*Account) {}, 9700, Ahead},
		"there is enough":     {func(a *Account) { a.Lots[0] = full }, 9200, NoAsk},
		"nobody asked":        {func(a *Account) { a.Spent = 0 }, 9200, NoAsk},
		"it has to pause":     {func(a *Account) { a.NextAsk = 9300 }, 9200, NoAsk},
		"the pause is over":   {func(a *Account) { a.NextAsk = 9200 }, 9200, TopUp},
		"the next is at hand": {func(a *Account) { a.Lots[1] = Lot{Units: 9, From: 10_001, Expiry: 11_000} }, 9700, TopUp},
	} {
		s := farStory(t)
		c.change(&s.account)
		if got := s.account.AskAlong(&s.terms, c.now); got != c.asks {
			t.Errorf("%s: asks %d, not %d", name, got, c.asks)
		}
	}
}

// A far relay grants units of both lots, and keeps a quarter for the other workers of a child, but not
// where children refuse requests.
func TestFarRelayKeepsAQuarter(t *testing.T) {
	far := func(denied int64) *tier {
		n := newTier(t, limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}, Leased,
			Lot{Units: 4, Expiry: 1800, TTL: 1000, Lease: 7}, Lot{Units: 16, Expiry: 2000, TTL: 1000, Lease: 7})
		n.terms, n.Account.Denied = n.terms.Afar(), denied
		return n
	}
	n := far(0)
	if g := n.acquire(1100, Want{Want: 40, Fresh: true}, Admit, 15); g.TTL != 699 {
		t.Errorf("%+v lasts as long as the first of both", g)
	}
	n.acquire(1101, Want{Need: 1, Waiting: 1, Want: 40}, Admit, 4)
	n.acquire(1102, Want{Need: 1, Waiting: 1, Want: 40}, Admit, 1)
	n.acquire(1103, Want{Need: 1, Waiting: 1, Want: 40}, Wait, 0)
	far(1).acquire(1100, Want{Want: 40, Fresh: true}, Admit, 20)
	far(0).acquire(1100, Want{Need: 20, Waiting: 20, Want: 40, Fresh: true}, Admit, 20)
	far(0).acquire(1650, Want{Want: 40, Fresh: true}, Admit, 12) // the older one ends too soon
}

// The lease of a child ends with the lot that it is cut from, whatever the reply shows of the distance.
func TestLeaseOfAChildEndsWithItsLot(t *testing.T) {
	n := newTier(t, perTenSeconds, Leased, Lot{}, Lot{Units: 30, From: 10_001, Expiry: 11_000, TTL: 1000, Lease: 8})
	n.terms = n.terms.Afar()
	n.Account.Reset, n.Account.trip, n.Account.Asked = 10_000, 450, 8000
	queue, grants := []Want{{Need: 1, Waiting: 1, Want: 20}}, make([]Grant, 1)
	w := n.Ask(&n.terms, 8550, queue, NoAsk)
	n.Apply(&n.terms, 8650, 8550, w, Grant{Status: OK, Granted: 20, Lease: 7, TTL: 1000, Limit: 1000, Remaining: 300, Reset: 1350}, 100, queue, grants)
	lot := n.Account.Lots[0]
	if lot.Lease != 7 {
		lot = n.Account.Lots[1]
	}
	if ends := 8650 + grants[0].TTL; lot.Lease != 7 || ends >= lot.Expiry {
		t.Errorf("the child's lease ends at %d, the lot is %+v", ends, lot)
	}
}

// A far holder asks until the end of a window that begins with the first request: nobody knows the next.
func TestAsksToTheEndOfAWindowOfTheFirstRequest(t *testing.T) {
	s := newStory(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 10 * limit.Second, Align: limit.AlignFirstRequest}, Leased)
	s.terms = s.terms.Afar()
	s.account = Account{Rate: 75, trip: 100, Asked: 9000, Spent: 20, Size: 40, Left: 500, Reset: 10_000}
	for _, now := range []Millis{9700, 9850, 9950, 10_000} {
		if got := s.account.askBehind(&s.terms, now); got != TopUp {
			t.Errorf("at %d it asks %d, not %d", now, got, TopUp)
		}
	}
}

// A far relay grants from the lot that has enough where both are of different leases, as of a sliding log.
func TestFarRelayCutsTheLotThatHasEnough(t *testing.T) {
	for _, limited := range []Millis{0, 1500} {
		n := newTier(t, limit.Spec{Algorithm: limit.SlidingLog, Count: 1000, Period: limit.Minute}, Leased,
			Lot{Units: 1, Expiry: 2000, TTL: 1000, Lease: 7}, Lot{Units: 50, Expiry: 2100, TTL: 1000, Lease: 8})
		n.terms, n.Account.LimitedUntil = n.terms.Afar(), limited
		if g := n.acquire(1100, Want{Need: 2, Waiting: 2, Want: 2, Fresh: true}, Admit, 2); g.Lease != 8 {
			t.Errorf("%+v is not of lease 8", g)
		}
	}
}
