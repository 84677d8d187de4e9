package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// The tables below have a row on each side of each bound.

var tokens = limit.Spec{Count: 10, Period: limit.Second}

// The rate is the demand lately. It sinks slowly while children reject requests, which they report later.
func TestMeasure(t *testing.T) {
	for name, row := range map[string]struct {
		near          bool
		phase         holder.Phase
		before, units int64
		since         lease.Millis
		rate          int64
	}{
		"the first time":                {false, holder.PhaseNone, 0, 4, 100, 40},
		"less, while children reject":   {false, holder.PhasePartial, 80, 4, 100, 75},
		"more, while children reject":   {false, holder.PhasePartial, 30, 4, 100, 33},
		"less":                          {false, holder.PhaseNone, 80, 4, 100, 69},
		"less, after a while":           {false, holder.PhaseNone, 80, 10, 250, 60},
		"none":                          {false, holder.PhaseNone, 81, 0, 100, 40},
		"near":                          {true, holder.PhasePartial, 80, 4, 100, 60},
		"in less than a quarter of one": {true, holder.PhaseNone, 0, 4, 1, 160},
	} {
		s := crossRegionStory(t)
		s.terms.Aggregator = !row.near
		s.rate, s.Holder.Phase, s.Holder.Spent, s.Holder.Denied = row.before, row.phase, row.units/2, row.units/4
		if s.measure(&s.terms, 9000+row.since, row.units-row.units/2-row.units/4); s.rate != row.rate {
			t.Errorf("%s: %d, want %d", name, s.rate, row.rate)
		}
	}
}

// What a cross-region relay asks for.
func TestAsksOfAggregator(t *testing.T) {
	for name, row := range map[string]struct {
		spec        limit.Spec
		trip, askAt lease.Millis
		rate        int64
		waiting     int64
		spent       int64
		log2        uint8
		soon, want  int64
	}{
		"a round trip":            {perTenSeconds, 100, 0, 75, 0, 100, 0, 17, 47},
		"for those that wait":     {perTenSeconds, 100, 0, 75, 5, 100, 0, 34, 47},
		"the pause is over":       {perTenSeconds, 100, 9000, 75, 0, 100, 0, 17, 47},
		"a pause after it":        {perTenSeconds, 100, 9001, 75, 0, 100, 0, 22, 47},
		"next to no demand":       {perTenSeconds, 10, 0, 10, 0, 100, 0, 0, 1},
		"six intervals":           {perTenSeconds, 100, 0, 75, 0, 100, 20, 17, 600},
		"four round trips":        {perTenSeconds, 200, 0, 75, 0, 100, 20, 27, 800},
		"two intervals of tokens": {tokens, 50, 0, 0, 0, 100, 20, 0, 200},
		"two round trips":         {tokens, 200, 0, 0, 0, 100, 20, 0, 400},
		"a pause of a bucket":     {tokens, 100, 9001, 75, 0, 100, 0, 17, 49},
	} {
		n := newTier(t, row.spec, lease.Leased)
		n.terms = n.terms.ForAggregator()
		n.trip, n.askAt, n.rate = row.trip, row.askAt, row.rate
		n.Holder.Asked, n.Holder.Spent, n.Holder.WantLog2 = 9000, row.spent, row.log2
		if w := n.askAggregator(&n.terms, 9100, min(row.waiting, 1), row.waiting, holder.TopUp); w.Soon != row.soon || w.Want != row.want {
			t.Errorf("%s: expects %d and wants %d, not %d and %d", name, w.Soon, w.Want, row.soon, row.want)
		}
	}
}

// When a cross-region relay asks next after a reply, which has been on its way from 9100 to 9200, and until when children reject.
func TestHeardAggregator(t *testing.T) {
	denied := holder.State{Phase: holder.PhaseDenied, Ends: 9600, Reset: 10_000}
	none := holder.State{Reset: 10_000}
	for name, row := range map[string]struct {
		c           lease.Consistency
		state       holder.State
		askAt       lease.Millis // before
		g           lease.Grant
		jitter      lease.Percent
		asks, until lease.Millis // after
	}{
		"a denial":                       {lease.Leased, denied, 0, lease.Grant{Status: lease.Denied}, 100, 9600, 9700},
		"a denial in a longer pause":     {lease.Leased, denied, 9900, lease.Grant{Status: lease.Denied}, 100, 9900, 9700},
		"denied, the next window":        {lease.Leased, denied, 9900, lease.Grant{Status: lease.OK, Granted: 10, StartsIn: 50}, 100, 9600, 9600},
		"denied, a smaller need":         {lease.Leased, denied, 9900, lease.Grant{Status: lease.OK, Granted: 40, Remaining: 900}, 100, 9900, 9600},
		"all":                            {lease.Leased, none, 9900, lease.Grant{Status: lease.OK, Granted: 40, Remaining: 900}, 100, 0, 0},
		"the next window":                {lease.Leased, none, 9900, lease.Grant{Status: lease.OK, Granted: 40, StartsIn: 50}, 100, 9900, 0},
		"a part of the next window":      {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 10, StartsIn: 50, Remaining: 900}, 100, 0, 0},
		"another of the group is denied": {lease.Leased, none, 9900, lease.Grant{Status: lease.OK, Remaining: 900}, 100, 9900, 0},
		"an exact rule":                  {lease.Exact, none, 0, lease.Grant{Status: lease.OK, Granted: 10, Remaining: 900}, 100, 0, 0},
		"a part":                         {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 20, Remaining: 900}, 100, 9300, 0},
		"a part, with jitter":            {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 20, Remaining: 900}, 110, 9320, 0},
		"a part for the pause":           {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 15, Remaining: 900}, 100, 9300, 0},
		"a part for less than the pause": {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 14, Remaining: 31}, 100, 9200, 0},
		"a part, and little is left":     {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 14, Remaining: 30}, 100, 9300, 9700},
		"a part, and enough is left":     {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 39, Remaining: 31}, 100, 9300, 0},
		"all, and little is left":        {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 40, Remaining: 5}, 100, 0, 0},
		"all, and nothing is left":       {lease.Leased, none, 0, lease.Grant{Status: lease.OK, Granted: 40}, 100, 0, 9700},
		"the window ends before":         {lease.Leased, holder.State{Reset: 9650}, 0, lease.Grant{Status: lease.OK, Granted: 40}, 100, 0, 9650},
		"undecided":                      {lease.Leased, none, 9900, lease.Grant{Status: lease.Unavailable}, 100, 9900, 0},
	} {
		s := crossRegionStory(t)
		s.terms.Consistency, s.Holder, s.askAt, s.trip = row.c, row.state, row.askAt, 0
		s.heardAggregator(&s.terms, 9200, 9100, lease.Want{Want: 40}, row.g, row.jitter)
		if s.askAt != row.asks || s.Holder.Ends != row.until || (s.trip == 100) != (row.g.Status != lease.Unavailable) {
			t.Errorf("%s: asks at %d, rejects until %d, not %d and %d; %+v", name, s.askAt, s.Holder.Ends, row.asks, row.until, s.distance)
		}
	}
}

// Whether a cross-region relay asks though no request waits.
func TestPrefetchOfAggregator(t *testing.T) {
	of := func(units int64) holder.Lease { return holder.Lease{Units: units, Expiry: 10_000, TTL: 1000, Lease: 7} }
	for name, row := range map[string]struct {
		now    lease.Millis
		units  int64
		change func(*tier)
		asks   holder.Asks
	}{
		"not in use":                          {9300, 0, func(s *tier) { s.rate, s.Holder.Spent = 0, 0 }, holder.NoAsk},
		"in use":                              {9300, 0, func(s *tier) { s.rate, s.Holder.Spent = 20, 20 }, holder.TopUp},
		"rejected":                            {9300, 0, func(s *tier) { s.rate, s.Holder.Spent, s.Holder.Denied = 20, 0, 20 }, holder.TopUp},
		"in the pause":                        {9300, 0, func(s *tier) { s.askAt = 9301 }, holder.NoAsk},
		"after the pause":                     {9300, 0, func(s *tier) { s.askAt = 9300 }, holder.TopUp},
		"after a pause that ends the window":  {9750, 0, func(s *tier) { s.askAt = 9750 }, holder.TopUp},
		"a quarter of the lease":              {9300, 10, func(s *tier) { s.trip = 5 }, holder.TopUp},
		"more than a quarter":                 {9300, 11, func(s *tier) { s.trip = 5 }, holder.NoAsk},
		"the units of a round trip":           {9300, 17, func(s *tier) { s.Holder.Size = 0 }, holder.TopUp},
		"more than that":                      {9300, 18, func(s *tier) { s.Holder.Size = 0 }, holder.NoAsk},
		"the window ends, and enough is left": {9750, 21, func(*tier) {}, holder.Ahead},
		"the window ends, and some is left":   {9750, 20, func(*tier) {}, holder.TopUp},
		"no second answer comes in time":      {9800, 27, func(s *tier) { s.Holder.Leases[1] = holder.Lease{Units: 1, From: 10_001, Expiry: 11_000} }, holder.TopUp},
		"the last answer that comes in time":  {9899, 5, func(*tier) {}, holder.TopUp},
		"no answer comes in time":             {9900, 5, func(*tier) {}, holder.Ahead},
		"the window is over":                  {10_000, 5, func(*tier) {}, holder.TopUp},
		"nobody knows the next window":        {9950, 5, func(s *tier) { s.terms.Lead = 0 }, holder.TopUp},
	} {
		s := crossRegionStory(t, of(row.units))
		row.change(s)
		if got := s.Prefetch(&s.terms, row.now); got != row.asks {
			t.Errorf("%s: %d, want %d", name, got, row.asks)
		}
	}
	for now, ending := range map[lease.Millis]bool{9699: false, 9700: true, 9999: true, 10_000: false} {
		if s := crossRegionStory(t, of(1)); s.endsWithoutNext(&s.terms, now) != ending {
			t.Errorf("at %d the window does not end: %v", now, ending)
		}
	}
}

// What of a relay's leases is for the next window, and what lasts until an answer comes.
func TestLeasesOfTheNextWindow(t *testing.T) {
	next, begun, empty := holder.Lease{Units: 5, From: 9501, Expiry: 9999}, holder.Lease{Units: 5, From: 9500, Expiry: 9999}, holder.Lease{From: 9501, Expiry: 9999}
	for name, row := range map[string]struct {
		lots [2]holder.Lease
		want bool
	}{
		"none": {[2]holder.Lease{}, false}, "the older": {[2]holder.Lease{next}, true}, "the younger": {[2]holder.Lease{{}, next}, true},
		"the older has begun": {[2]holder.Lease{begun}, false}, "the younger has begun": {[2]holder.Lease{{}, begun}, false},
		"the older is used up": {[2]holder.Lease{empty}, false}, "the younger is used up": {[2]holder.Lease{{}, empty}, false},
	} {
		s := crossRegionStory(t, row.lots[:]...)
		if got := s.holdsNext(9500); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A cross-region relay in use looks again when it may ask for the next window, when a lease is about to end, and when it may ask
// for the little that is left.
func TestRenewAt(t *testing.T) {
	lot := holder.Lease{Units: 100, Expiry: 9600, TTL: 400, Lease: 7} // lasts until 9600 - 400/4 - 5*100/4
	s := crossRegionStory(t, lot)
	if s.lasting(&s.terms, 9375) != 100 || s.lasting(&s.terms, 9376) != 0 {
		t.Error("a lease lasts until an ask that is sent at 9375")
	}
	for name, row := range map[string]struct {
		change func(*tier)
		now    lease.Millis
		at     lease.Millis
	}{
		"the next window":       {func(*tier) {}, 9300, 9700},
		"a moment before":       {func(*tier) {}, 9699, 9700},
		"it may be asked for":   {func(*tier) {}, 9700, lease.Never},
		"it is there":           {func(s *tier) { s.Holder.Leases[1] = holder.Lease{Units: 1, From: 10_001} }, 9300, lease.Never},
		"there is none":         {func(s *tier) { s.terms.Lead = 0 }, 9300, lease.Never},
		"a lease":               {func(s *tier) { s.Holder.Leases[0] = lot }, 9300, 9376},
		"a lease that ends now": {func(s *tier) { s.Holder.Leases[0] = lot }, 9375, 9376},
		"a lease that ended":    {func(s *tier) { s.Holder.Leases[0] = lot }, 9376, 9700},
		"nothing was spent":     {func(s *tier) { s.Holder.Spent = 0 }, 9300, lease.Never},
		"in use, and rejected":  {func(s *tier) { s.Holder.Denied = s.Holder.Spent }, 9300, 9700},
		"the pause":             {func(s *tier) { s.askAt = 9500 }, 9300, 9500},
		"the pause is over":     {func(s *tier) { s.askAt = 9500 }, 9500, 9700},
		"a round trip is left":  {func(s *tier) { s.askAt, s.Holder.Leases[0] = 9500, holder.Lease{Units: 17, Expiry: 10_000} }, 9300, 9500},
		"more is left":          {func(s *tier) { s.askAt, s.Holder.Leases[0] = 9500, holder.Lease{Units: 18, Expiry: 10_000} }, 9300, 9700},
		"the pause ends the window": {func(s *tier) {
			s.askAt, s.Holder.Leases[0] = 10_000, holder.Lease{Units: 900, Expiry: 11_000}
		}, 9300, lease.Never},
	} {
		s := crossRegionStory(t)
		row.change(s)
		if got := s.RenewAt(&s.terms, row.now); got != row.at {
			t.Errorf("%s: looks again at %d, not %d", name, got, row.at)
		}
	}
}

// Which of two leases is cut, and what it does to the next ask.
func TestCuts(t *testing.T) {
	older, younger := holder.Lease{Units: 4, Expiry: 2000, TTL: 1000, Lease: 7}, holder.Lease{Units: 6, Expiry: 2500, TTL: 1000, Lease: 8}
	n := newTier(t, perMinute, lease.Leased, older, younger)
	if g := n.acquire(1000, lease.Want{Need: 4, Waiting: 4, Want: 4}, holder.Admit, 4); g.Lease != 7 || n.Holder.WantLog2 != 0 {
		t.Errorf("%+v; the older one has enough, and units are left: %+v", g, n.Holder)
	}
	if g := n.acquire(1000, lease.Want{Need: 6, Waiting: 6, Want: 6}, holder.Admit, 6); g.RetryAfter != 0 || n.Holder.WantLog2 != 1 {
		t.Errorf("%+v; all is used up, and more is left at the granter: %+v", g, n.Holder)
	}
	begun := holder.Lease{Units: 4, From: 1000, Expiry: 2000, TTL: 1000, Lease: 7}
	n = newTier(t, perMinute, lease.Leased, begun)
	n.Holder.Left = 0
	if g := n.acquire(1000, lease.Want{Need: 1, Waiting: 1, Want: 4}, holder.Admit, 2); g.RetryAfter != 0 || n.Holder.WantLog2 != 1 {
		t.Errorf("%+v; two of a lease that has begun, which is too small: %+v", g, n.Holder)
	}
	if g := n.acquire(1000, lease.Want{Need: 2, Waiting: 2, Want: 2}, holder.Admit, 2); g.RetryAfter == 0 {
		t.Errorf("%+v: nothing is left", g)
	}
	next := holder.Lease{Units: 4, From: 1001, Expiry: 2000, TTL: 1000, Lease: 7}
	n = newTier(t, perMinute, lease.Leased, next)
	n.Holder.Left = 0
	if g := n.acquire(1000, lease.Want{Waiting: 4, Want: 4, Next: true}, holder.Admit, 4); g.RetryAfter != 0 || g.StartsIn != 1 {
		t.Errorf("%+v: of the next window", g)
	}
	n = newTier(t, perMinute, lease.Leased, older)
	n.acquire(1000, lease.Want{Need: 1, Waiting: 5, Want: 24}, holder.Wait, 0) // the child would reject the others
	n.Holder.Phase, n.Holder.Ends, n.Holder.Left = holder.PhasePartial, 1400, 0
	n.acquire(1000, lease.Want{Need: 1, Waiting: 5, Want: 24}, holder.Admit, 4) // nothing is left above
}

// Of two leases that are not of the next window, the one with fewer units makes room for a new one with more.
func TestEvicts(t *testing.T) {
	lot := func(units int64, from lease.Millis) holder.Lease {
		return holder.Lease{Units: units, From: from, Expiry: 2000, Lease: uint32(units)}
	}
	for name, row := range map[string]struct {
		lots [2]holder.Lease
		back int64
	}{
		"the older":                   {[2]holder.Lease{lot(4, 0), lot(6, 0)}, 4},
		"the younger":                 {[2]holder.Lease{lot(4, 0), lot(3, 0)}, 3},
		"the older of two alike":      {[2]holder.Lease{lot(4, 1200), lot(4, 0)}, 4},
		"one that has begun":          {[2]holder.Lease{lot(3, 1200), lot(6, 0)}, 3},
		"the younger, which has":      {[2]holder.Lease{lot(4, 0), lot(3, 1200)}, 3},
		"the younger, which has, too": {[2]holder.Lease{lot(4, 1201), lot(5, 1200)}, 5},
		"not of the next window":      {[2]holder.Lease{lot(4, 1201), lot(3, 1201)}, 0},
		"not one with as many":        {[2]holder.Lease{lot(50, 0), lot(60, 0)}, 0},
		"one with fewer":              {[2]holder.Lease{lot(49, 0), lot(60, 0)}, 49},
		"none, there is room":         {[2]holder.Lease{lot(4, 0)}, 0},
	} {
		n := newTier(t, perMinute, lease.Leased, row.lots[:]...)
		if back := n.evict(1200, 50); back.Units != row.back || back.Units > 0 && back.Lease != uint32(back.Units) {
			t.Errorf("%s: %+v", name, back)
		}
	}
}

// What a child is answered that waited in a queue.
func TestAnswersAQueuedWant(t *testing.T) {
	for name, row := range map[string]struct {
		c                lease.Consistency
		g                lease.Grant
		need             int64
		status           lease.Status
		granted, remains int64
		retries          bool
	}{
		"a part":                           {lease.Leased, lease.Grant{Status: lease.OK, Granted: 5, Remaining: 2, RetryAfter: 70}, 2, lease.OK, 2, 5, false},
		"all, nothing left":                {lease.Leased, lease.Grant{Status: lease.OK, Granted: 5, RetryAfter: 70}, 5, lease.OK, 5, 0, true},
		"all, one left":                    {lease.Leased, lease.Grant{Status: lease.OK, Granted: 5, Remaining: 1, RetryAfter: 70}, 5, lease.OK, 5, 1, false},
		"of the next window":               {lease.Leased, lease.Grant{Status: lease.OK, Granted: 5, StartsIn: 9, RetryAfter: 70}, 5, lease.OK, 5, 0, false},
		"too little":                       {lease.Leased, lease.Grant{Status: lease.OK, Granted: 5, Remaining: 2}, 6, lease.Denied, 0, 7, true},
		"too little, of what it overdraws": {lease.Optimistic, lease.Grant{Status: lease.OK, Granted: 5, Remaining: 2}, 6, lease.Denied, 0, 2, true},
		"a part of what it overdraws":      {lease.Optimistic, lease.Grant{Status: lease.OK, Granted: 5, Remaining: 2}, 2, lease.OK, 2, 2, false},
	} {
		n := newTier(t, perMinute, row.c)
		row.g.Reset = 500
		w := lease.Want{Need: row.need, Waiting: row.need, Want: row.need}
		g := answerQueued(&n.terms, 1000, 2000, &w, w, row.g, row.g.Granted, 0)
		if g.Status != row.status || g.Granted != row.granted || g.Remaining != row.remains || (g.RetryAfter > 0) != row.retries {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// Whether a need fits into what the granter has when the relay has given back its units.
func TestOffers(t *testing.T) {
	for name, row := range map[string]struct {
		c     lease.Consistency
		far   bool
		back  int64
		need  int64
		least int64
		want  bool
	}{
		"nothing goes back":          {lease.Exact, false, 0, 1, 2, false},
		"no need":                    {lease.Exact, false, 2, 0, 2, false},
		"less than was denied":       {lease.Exact, false, 2, 3, 2, true},
		"what was denied":            {lease.Exact, false, 2, 3, 1, false},
		"far":                        {lease.Exact, true, 2, 3, 2, true},
		"leased":                     {lease.Leased, false, 2, 3, 2, true},
		"leased, what was denied":    {lease.Leased, false, 2, 3, 1, false},
		"leased, less, but far away": {lease.Leased, true, 2, 3, 2, false},
	} {
		n := newTier(t, perMinute, row.c)
		n.terms.Aggregator, n.Back = row.far, row.back
		n.Holder.Phase, n.Holder.Ends, n.Holder.Least, n.Holder.Left = holder.PhaseDenied, 2000, row.least, row.least-1
		if got := n.offers(&n.terms, 1000, lease.Want{Need: row.need}); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What is left of a relay after small changes.
func TestSmallChanges(t *testing.T) {
	n := newTier(t, perMinute, lease.Leased)
	for want, asking := range map[int64]bool{1: false, 0: true} {
		n.Holder.Asking = true
		if n.Apply(&n.terms, 1000, 990, lease.Want{Want: want}, lease.Grant{Status: lease.Unavailable}, 100, nil, nil); n.Holder.Asking != asking {
			t.Errorf("a reply to a want of %d that decides nothing: asking %v", want, n.Holder.Asking)
		}
	}
	grants := make([]lease.Grant, 1)
	n.Back = 2
	n.Apply(&n.terms, 1000, 990, lease.Want{Need: 1, Waiting: 1, Want: 1}, lease.Grant{Status: lease.OK, Granted: 1, TTL: 1000, Remaining: 5}, 100, []lease.Want{{Need: 1, Waiting: 1, Want: 1}}, grants)
	if grants[0].Remaining != 7 {
		t.Errorf("%+v: 5 are left at the granter, and 2 are on their way back", grants[0])
	}
	if back := n.TakeBack(&n.terms, 1000, holder.Part{Units: 3}); back.Units != 3 {
		t.Errorf("an empty place took units of lease 0: %+v", back)
	}
	for _, reply := range []struct {
		status          lease.Status
		remaining, left int64
	}{{lease.Denied, 5, 5}, {lease.OK, 4, 4}, {lease.Unavailable, 3, 4}} {
		n.DebtReplied(&n.terms, 1000, lease.Grant{Status: reply.status, Remaining: reply.remaining, Reset: 100})
		if n.Holder.Left != reply.left {
			t.Errorf("a debt with the status %d states that %d are left: %+v", reply.status, reply.remaining, n.Holder)
		}
	}
	bucket := newTier(t, tokens, lease.Leased)
	if bucket.Holder.Reset = 1000; bucket.rejection(&bucket.terms, 1000, lease.Want{Need: 1}).AskAfter != 100 {
		t.Error("a full bucket has no end of a window")
	}
	if bucket.Holder.Overdrawn = 3; bucket.report(&bucket.terms, 900).Reset != 400 {
		t.Error("a debt of 3 tokens comes in 300 ms later")
	}
	near := distance{trip: n.terms.Interval / 10, rate: 10_000 / int64(n.terms.Interval)}
	if units := near.soon(&n.terms); units != 1 {
		t.Errorf("%d units for a round trip of a tenth of an interval, with one request in it", units)
	}
	far := newTier(t, perMinute, lease.Leased)
	far.terms = far.terms.ForAggregator()
	if far.Idle(&far.terms, 900+idleMemory-1) || !far.Idle(&far.terms, 900+idleMemory) {
		t.Error("a cross-region relay is kept for ten seconds after its last ask")
	}
	for _, row := range []struct {
		until    [2]lease.Millis
		replaced int
	}{{[2]lease.Millis{2000, 3000}, 0}, {[2]lease.Millis{3000, 2000}, 1}, {[2]lease.Millis{2000, 2000}, 0}} {
		n.Relay.lent = [2]lent{{lease: 1, units: 1, until: row.until[0]}, {lease: 2, units: 1, until: row.until[1]}}
		if n.lend(&n.terms, 1000, 3, 5, 4000); n.Relay.lent[row.replaced].lease != 3 {
			t.Errorf("%v: %+v", row.until, n.Relay.lent)
		}
	}
	memory := 4000 + lease.Millis(granter.LeaseMemory/limit.Millisecond)
	if n.lentOf(memory-1, 3) == nil || n.lentOf(memory, 3) != nil {
		t.Error("a lease is remembered until it cannot come back")
	}
}
