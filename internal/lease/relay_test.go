package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// tier drives one relay through a trace.
type tier struct {
	t     *testing.T
	terms Terms
	Relay
}

func newTier(t *testing.T, s limit.Spec, c Consistency, lots ...Lot) *tier {
	n := &tier{t: t, terms: NewTerms(newLimit(t, s), c, 0, 0, 0)}
	copy(n.Account.Lots[:], lots)
	n.Account.Left, n.Account.Reset, n.Account.Asked = 500, 60_000, 900
	return n
}

func (n *tier) acquire(now Millis, w Want, verdict Verdict, granted int64) Grant {
	n.t.Helper()
	g, v, back := n.Acquire(&n.terms, now, w)
	if v != verdict || g.Granted != granted || back.Units != 0 {
		n.t.Fatalf("at %d %+v: verdict %d, granted %d, gave back %d, not %d and %d; %+v", now, w, v, g.Granted, back.Units, verdict, granted, n.Account)
	}
	return g
}

func TestRelayCutsItsLeases(t *testing.T) {
	n := newTier(t, perMinute, Leased, Lot{Units: 100, Expiry: 2000, TTL: 1000, Lease: 7})
	g := n.acquire(1250, Want{Want: 80, Fresh: true}, Admit, 50) // half for one asker
	if g.TTL != 749 || g.Lease != 7 || g.Remaining != 550 {
		t.Errorf("%+v: a lease never outlives the one it was cut from", g)
	}
	n.acquire(1251, Want{Need: 1, Waiting: 30, Want: 30, Fresh: true}, Admit, 30) // who waits gets it whole
	n.acquire(1252, Want{Need: 21, Waiting: 21, Want: 21}, Wait, 0)
	if asks := n.Top(&n.terms, 1252); asks != NoAsk {
		t.Error("tops up although its size is unknown")
	}
	n.Account.Size = 100
	if asks := n.Top(&n.terms, 1252); asks != TopUp {
		t.Error("does not top up at a quarter")
	}
}

// A relay cuts each child its part of what is needed soon, or of half of the lot if that is more.
func TestRelayCutsWhatItNeedsInParts(t *testing.T) {
	lot := Lot{Units: 100, Expiry: 2000, TTL: 1000, Lease: 7}
	n := newTier(t, perMinute, Leased, lot)
	n.Account.Rate = 100_000
	n.acquire(1250, Want{Want: 10, Fresh: true}, Admit, 10)
	n.acquire(1251, Want{Want: 80, Fresh: true}, Admit, 45) // of 90 for two
	n = newTier(t, perMinute, Leased, lot)
	n.Account.Rate = 100_000
	n.acquire(1250, Want{Want: 80, Fresh: true}, Admit, 80)
	n = newTier(t, perMinute, Leased, lot)
	n.acquire(1250, Want{Want: 80, Fresh: true}, Admit, 50)
}

func TestRelayTopsUpWhatIsNearlyOver(t *testing.T) {
	lot := Lot{Units: 100, Expiry: 2000, TTL: 1000, Lease: 7}
	w := Want{Need: 1, Waiting: 1, Want: 1}
	newTier(t, perMinute, Leased, lot).acquire(1749, w, Admit, 1)
	newTier(t, perMinute, Leased, lot).acquire(1750, w, Wait, 0)
	n := newTier(t, perMinute, Leased, lot)
	n.Account.DeniedNeed, n.Account.NextAsk = 1, 3000
	if g := n.acquire(1750, w, Admit, 1); g.TTL != 249 { // better than to refuse
		t.Errorf("ttl %d", g.TTL)
	}
	n.acquire(1999, w, Wait, 0) // nobody could spend it any more: it goes back for another
}

func TestRelayRefusesFromMemory(t *testing.T) {
	n := newTier(t, perMinute, Leased)
	n.Account.DeniedNeed, n.Account.NextAsk, n.Account.Left = 5, 2000, 4
	g := n.acquire(1000, Want{Need: 5, Waiting: 5, Want: 5}, Refuse, 0)
	if g.Status != Denied || g.AskAfter != 100 || g.RetryAfter != n.Account.Reset-1000 || g.Remaining != 4 {
		t.Errorf("%+v", g)
	}
	n.acquire(1000, Want{Need: 4, Waiting: 4, Want: 4}, Wait, 0)
	n.Account.Reset = 1030
	if g := n.acquire(1000, Want{Need: 5, Waiting: 5, Want: 5}, Refuse, 0); g.AskAfter != 30 {
		t.Errorf("ask after %d ms: not beyond the end of the window", g.AskAfter)
	}
}

func TestRelayAnswersOnlyWhoCanWait(t *testing.T) {
	n := newTier(t, perMinute, Leased)
	n.Relay.Ask(&n.terms, 1000, nil, TopUp)
	n.acquire(1001, Want{Want: 10}, Refuse, 0) // a top-up does not wait for another
	n.acquire(1001, Want{Need: 1, Waiting: 1, Want: 1}, Wait, 0)
}

func TestRelayAsksForItsChildren(t *testing.T) {
	n := newTier(t, perMinute, Leased)
	queue := []Want{{Need: 9, Waiting: 9, Want: 9}, {Need: 2, Waiting: 4, Want: 60}, {Want: 5}}
	w := n.Relay.Ask(&n.terms, 1000, queue, NoAsk)
	if w.Need != 2 || w.Waiting != 13 || w.Want != 74 || w.Next {
		t.Errorf("asks %+v", w)
	}
	grants := make([]Grant, 3)
	back := n.Relay.Apply(&n.terms, 1010, 1000, w, Grant{Status: OK, Granted: 40, Lease: 7, TTL: 1000, Remaining: 6, Reset: 5000}, 100, queue, grants)
	if back.Units != 0 || grants[0].Granted != 9 || grants[1].Granted != 7 || grants[2].Granted != 5 {
		t.Errorf("granted %+v", grants)
	}
	for _, g := range grants {
		if g.TTL != 989 || g.Status != OK {
			t.Errorf("%+v: not within the relay's own 1000 ms since 1000", g)
		}
	}
	if n.Account.Lots[1].Units+n.Account.Lots[0].Units != 19 {
		t.Errorf("keeps %+v", n.Account.Lots)
	}
}

func TestRelayServesAllWhoWaitBeforeAnybodyAhead(t *testing.T) {
	n := newTier(t, limit.Spec{Count: 100, Period: limit.Second}, Leased) // a bucket's share is all there is
	queue := []Want{{Need: 1, Waiting: 1, Want: 50}, {Need: 3, Waiting: 3, Want: 50}}
	w := n.Relay.Ask(&n.terms, 1000, queue, NoAsk)
	grants := make([]Grant, 2)
	n.Relay.Apply(&n.terms, 1010, 1000, w, Grant{Status: OK, Granted: 10, TTL: 1000}, 100, queue, grants)
	if grants[0].Granted != 7 || grants[1].Granted != 3 {
		t.Errorf("granted %+v", grants)
	}
}

func TestRelayPassesADenialOn(t *testing.T) {
	n := newTier(t, perMinute, Leased, Lot{Units: 3, Expiry: 1100, TTL: 1000, Lease: 7}, Lot{Units: 4, Expiry: 1900, TTL: 1000, Lease: 8})
	queue := []Want{{Need: 5, Waiting: 5, Want: 5}, {Need: 2, Waiting: 2, Want: 2}}
	w := n.Relay.Ask(&n.terms, 1000, queue, NoAsk)
	grants := make([]Grant, 2)
	n.Relay.Apply(&n.terms, 1010, 1000, w, denied(1, 300), 100, queue, grants)
	if g := grants[0]; g.Status != Denied || g.AskAfter != 300 || g.RetryAfter != 30_000 || g.Remaining != 4 {
		t.Errorf("the costly one: %+v", g)
	}
	if g := grants[1]; g.Granted != 2 || g.TTL != 89 {
		t.Errorf("what is left of an old lease is better than nothing: %+v", g)
	}

	n.Relay.Apply(&n.terms, 1020, 1000, w, Grant{Status: Unavailable}, 100, queue, grants)
	if grants[0].Status != Unavailable || grants[1].Status != Unavailable {
		t.Errorf("%+v", grants)
	}
}

// A relay takes back what it has cut of a lease, and no more.
func TestRelayTakesBack(t *testing.T) {
	n := newTier(t, perMinute, Leased, Lot{Units: 6, Expiry: 2000, TTL: 1000, Lease: 7})
	n.acquire(1000, Want{Need: 5, Waiting: 5, Want: 5}, Admit, 5)
	for _, row := range []struct{ unused, left int64 }{{1<<32 - 1, 1}, {4, 5}, {2, 6}, {1, 6}, {1<<32 - 1, 6}} {
		if n.acquire(1000, Want{Unused: row.unused, Lease: 7}, Admit, 0); n.Account.Lots[0].Units != row.left {
			t.Errorf("after %d came back: %+v, want %d units", row.unused, n.Account.Lots[0], row.left)
		}
	}
	n.acquire(1000, Want{Need: 6, Waiting: 6, Want: 6}, Admit, 6)
	if !n.Lends(1998) || n.Lends(1999) {
		t.Error("a lease that was cut until 1999 does not run until then")
	}
	if _, _, back := n.Acquire(&n.terms, 2000+Millis(leaseMemory/limit.Millisecond), Want{Unused: 4, Lease: 7}); back.Units != 4 || n.Account.Lots[0].Units != 0 {
		t.Errorf("takes units back long after their lease: %+v", n.Account.Lots)
	}
	_, _, back := n.Acquire(&n.terms, 1000, Want{Unused: 4, Lease: 8})
	if back != (Part{Units: 4, Lease: 8, Expiry: 1000}) {
		t.Errorf("what belongs to no lease of its own has to go up: %+v", back)
	}
	bucket := newTier(t, limit.Spec{Count: 100, Period: limit.Second}, Leased, Lot{Units: 1, Expiry: 2000, TTL: 1000})
	if _, _, back := bucket.Acquire(&bucket.terms, 1000, Want{Unused: 4}); back.Units != 4 {
		t.Errorf("tokens would be out for ever: %+v", bucket.Account.Lots)
	}
}

// A relay neither adds up what its children overdrew nor pays it: they repeat it.
func TestRelayLeavesDebtsToTheCounter(t *testing.T) {
	n := newTier(t, perMinute, Optimistic, Lot{Units: 3, Expiry: 2000, TTL: 1000, Lease: 7})
	for range 3 {
		n.acquire(1000, Want{Overdrawn: 2, Debt: 5}, Admit, 0)
	}
	if n.Account.Lots[0].Units != 3 || n.Account.Overdrawn != 0 {
		t.Errorf("%+v", n.Account)
	}
}

func TestRelayNestsTheNextWindow(t *testing.T) {
	n := newTier(t, perMinute, Leased, Lot{Units: 10, Expiry: 10_000, TTL: 5000, Lease: 7})
	n.Account.Reset = 10_000
	next := Want{Want: 8, Next: true, Fresh: true}
	n.acquire(9800, next, Wait, 0) // units of the running window are not for the next
	w := n.Relay.Ask(&n.terms, 9800, []Want{next}, NoAsk)
	if !w.Next || w.Need != 0 {
		t.Fatalf("asks %+v", w)
	}
	grants := make([]Grant, 1)
	n.Relay.Apply(&n.terms, 9804, 9800, w, Grant{Status: OK, Granted: 16, Lease: 8, StartsIn: 198, TTL: 1200, Reset: 198}, 100, []Want{next}, grants)
	if g := grants[0]; g.Granted != 8 || g.StartsIn != 198 || g.TTL != 1195 {
		t.Errorf("%+v", g)
	}
	g := n.acquire(9900, Want{Want: 2, Next: true}, Admit, 2)
	if g.Lease != 8 || g.StartsIn != 103 || g.TTL != 1099 {
		t.Errorf("%+v: not before the relay's own units begin", g)
	}
	n.acquire(9901, Want{Need: 1, Waiting: 1, Want: 1}, Wait, 0) // the old lot is nearly over
	n.acquire(10_004, Want{Need: 1, Waiting: 1, Want: 1}, Admit, 1)
}

func TestRelayOfAnExactRule(t *testing.T) {
	n := newTier(t, perMinute, Exact)
	w := Want{Need: 1, Waiting: 1, Want: 1}
	n.acquire(1000, w, Wait, 0)
	up := n.Relay.Ask(&n.terms, 1000, []Want{w}, NoAsk)
	if up.Want != 1 {
		t.Errorf("asks %+v", up)
	}
	grants := make([]Grant, 1)
	if back := n.Relay.Apply(&n.terms, 1004, 1000, up, denied(0, 200), 100, []Want{w}, grants); back.Units != 0 || grants[0].Status != Denied {
		t.Errorf("%+v", grants)
	}
	n.acquire(1100, w, Refuse, 0)
	n.acquire(1204, w, Wait, 0)
	n.acquire(1204, w, Refuse, 0)
	n.Relay.Apply(&n.terms, 1206, 1204, up, Grant{Status: OK, Granted: 1, Lease: 7, TTL: 1000}, 100, []Want{w}, grants)
	_, _, back := n.Acquire(&n.terms, 1206, Want{Unused: 3, Lease: 7})
	if grants[0].Granted != 1 || back.Units != 3 || back.Lease != 7 || n.Lends(1206) {
		t.Errorf("granted %+v, gave back %+v: the counter has the account of what is out", grants, back)
	}
}

// Where neither lot has what a want needs, both together may, for as long as the
// first of them lasts; units of different leases are never put into one grant.
func TestRelayCutsBothLots(t *testing.T) {
	for _, c := range []struct {
		name    string
		lease   uint32 // of the younger lot
		need    int64
		verdict Verdict
		granted int64
	}{
		{"both are needed", 7, 9, Admit, 9},
		{"all of both", 7, 10, Admit, 10},
		{"more than both", 7, 11, Wait, 0},
		{"of two leases", 8, 9, Wait, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTier(t, perMinute, Leased, Lot{Units: 4, Expiry: 2000, TTL: 1000, Lease: 7}, Lot{Units: 6, Expiry: 2500, TTL: 1000, Lease: c.lease})
			g := n.acquire(1200, Want{Need: c.need, Waiting: c.need, Want: 20}, c.verdict, c.granted)
			left := n.Account.Lots[0].Units + n.Account.Lots[1].Units
			if left != 10-c.granted || c.granted > 0 && (g.TTL != 799 || g.Lease != 7) {
				t.Errorf("%+v, %d units left", g, left)
			}
		})
	}
}

// A new lease takes the place of the smaller rest of an old one, which goes back.
func TestRelayMakesPlaceForANewLease(t *testing.T) {
	old := Lot{Units: 4, Expiry: 2000, TTL: 1000, Lease: 7}
	for _, c := range []struct {
		name    string
		younger Lot
		back    Part
	}{
		{"the older one goes", Lot{Units: 6, Expiry: 2500, TTL: 1000, Lease: 8}, Part{Units: 4, Lease: 7, Expiry: 2000}},
		{"the younger one goes", Lot{Units: 3, Expiry: 2500, TTL: 1000, Lease: 8}, Part{Units: 3, Lease: 8, Expiry: 2500}},
		{"not that of the next window", Lot{Units: 3, From: 2000, Expiry: 2500, TTL: 1000, Lease: 8}, Part{Units: 4, Lease: 7, Expiry: 2000}},
		{"there is place", Lot{}, Part{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTier(t, perMinute, Leased, old, c.younger)
			w := n.Relay.Ask(&n.terms, 1200, nil, TopUp)
			g := Grant{Status: OK, Granted: 50, Lease: 9, TTL: 1000, Remaining: 100, Reset: 5000}
			if back := n.Relay.Apply(&n.terms, 1202, 1200, w, g, 100, nil, nil); back != c.back {
				t.Errorf("gave back %+v, want %+v", back, c.back)
			}
			if got, want := n.Account.Lots[0].Units+n.Account.Lots[1].Units, 54+c.younger.Units-c.back.Units; got != want {
				t.Errorf("holds %d units, want %d: %+v", got, want, n.Account.Lots)
			}
		})
	}
}

// A new lease that is over before it arrives takes nobody's place: it goes back.
func TestRelayMakesNoPlaceForALeaseThatIsOver(t *testing.T) {
	n := newTier(t, perMinute, Leased, Lot{Units: 4, Expiry: 2000, TTL: 1000, Lease: 7}, Lot{Units: 6, Expiry: 2500, TTL: 1000, Lease: 8})
	w := n.Relay.Ask(&n.terms, 1200, nil, TopUp)
	g := Grant{Status: OK, Granted: 50, Lease: 9, TTL: 100, Remaining: 100, Reset: 5000}
	if back := n.Relay.Apply(&n.terms, 1300, 1200, w, g, 100, nil, nil); back.Units != 50 || back.Lease != 9 {
		t.Errorf("gave back %+v, want the 50 units that came", back)
	}
	if got := n.Account.Available(1300); got != 10 {
		t.Errorf("holds %d units, want the 10 it had: %+v", got, n.Account.Lots)
	}
}

// There is nothing to fetch ahead for an exact rule.
func TestRelayOfAnExactRuleDoesNotTopUp(t *testing.T) {
	n := newTier(t, perMinute, Exact)
	if asks := n.Top(&n.terms, 1000); asks != NoAsk {
		t.Errorf("asks %v", asks)
	}
}
