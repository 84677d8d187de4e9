package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// The tables below have a row on each side of each bound. Each is at 1000.
const at = lease.Millis(1000)

func termsOf(t *testing.T, s limit.Spec, c lease.Consistency) *lease.Terms {
	t.Helper()
	terms := lease.NewTerms(fatal.Get(limit.New(s))(t), c, 100, 50, 10)
	return &terms
}

var (
	tokens  = limit.Spec{Count: 10, Period: limit.Second}
	sliding = limit.Spec{Algorithm: limit.SlidingWindow, Count: 320, Period: limit.Second}
	penal   = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute, ChargeRejected: true}
)

// Units that have lapsed count with the next ask, if they are of the window that runs.
func TestHeld(t *testing.T) {
	for name, row := range map[string]struct {
		spec          limit.Spec
		expiry, reset lease.Millis
		want          int64
	}{
		"live":                               {perMinute, at + 1, 60_500, 3},
		"of the running window":              {perMinute, 501, 60_500, 3},
		"of the window before":               {perMinute, 500, 60_500, 0},
		"the window is over":                 {perMinute, 900, at, 0},
		"nobody knows the window":            {perMinute, 900, 0, 0},
		"of a limit that has no such window": {sliding, 900, 0, 3},
	} {
		a := State{Leases: [2]Lease{{Units: 3, Expiry: row.expiry}}, Reset: row.reset}
		if got := a.Held(termsOf(t, row.spec, lease.Leased), at); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

// Whether an optimistic holder admits one unit before the answer.
func TestOverdraws(t *testing.T) {
	for name, row := range map[string]struct {
		spec limit.Spec
		a    State
		want bool
	}{
		"nothing is known":                            {perMinute, State{}, true},
		"one is left":                                 {perMinute, State{Reset: at + 1, Left: 1}, true},
		"none is left":                                {perMinute, State{Reset: at + 1}, false},
		"none was left in the window before":          {perMinute, State{Reset: at}, true},
		"it has overdrawn since the window began":     {perMinute, State{Reset: at, Sealed: Debt{Number: at}}, false},
		"it has overdrawn before the window began":    {perMinute, State{Reset: at, Sealed: Debt{Number: at - 1}}, true},
		"it has overdrawn, and one is left":           {perMinute, State{Reset: at + 1, Left: 1, Sealed: Debt{Number: at + 1}}, true},
		"it has overdrawn, of a limit without window": {tokens, State{Reset: at, Sealed: Debt{Number: at}}, true},
		"the whole overdraft is used":                 {perMinute, State{Overdrawn: 10}, false},
		"one of the overdraft is left":                {perMinute, State{Overdrawn: 9}, true},
		"a request was rejected":                      {perMinute, State{Reset: at + 1, Left: 1, Overdrawn: 1, Rejected: true}, false},
	} {
		if got := row.a.mayOverdraw(termsOf(t, row.spec, lease.Optimistic), at, 1); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	var a State
	if d := a.Take(termsOf(t, perMinute, lease.Optimistic), at, 2); d.Verdict != Admit || d.Taken.Overdrawn != 2 || a.Overdrawn != 2 || a.Spent != 2 {
		t.Errorf("2 that it overdraws: %+v, %+v", d, a)
	}
}

// Whether a holder asks for the next window. It has room for two leases, and needs one place for that of the next.
func TestEnding(t *testing.T) {
	runs, next := Lease{Units: 5, Expiry: 9000}, Lease{Units: 5, From: at + 1, Expiry: 9000}
	begun, empty := Lease{Units: 5, From: at, Expiry: 9000}, Lease{From: at + 1, Expiry: 9000}
	for name, row := range map[string]struct {
		lots  [2]Lease
		reset lease.Millis
		want  bool
	}{
		"no lease":                           {[2]Lease{}, at + 200, true},
		"too early":                          {[2]Lease{}, at + 201, false},
		"the window is over":                 {[2]Lease{}, at, false},
		"the older is of this window":        {[2]Lease{runs}, at + 100, true},
		"the younger is of this window":      {[2]Lease{{}, runs}, at + 100, true},
		"both are":                           {[2]Lease{runs, runs}, at + 100, false},
		"the older is of the next":           {[2]Lease{next}, at + 100, false},
		"the younger is of the next":         {[2]Lease{{}, next}, at + 100, false},
		"the older has begun":                {[2]Lease{begun}, at + 100, true},
		"the younger has begun":              {[2]Lease{{}, begun}, at + 100, true},
		"that of the next window is used up": {[2]Lease{{}, empty}, at + 100, true},
	} {
		a := State{Leases: row.lots, Reset: row.reset}
		if got := a.ending(termsOf(t, perMinute, lease.Leased), at); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Whether a request is rejected of which so many units are missing.
func TestRejects(t *testing.T) {
	partial := State{Phase: PhasePartial, Ends: at + 50, Asked: at - 5, Reset: 30_000}
	denied := State{Phase: PhaseDenied, Ends: at + 50, Least: 5, Asked: at - 5, Left: 4, Reset: 30_000}
	with := func(a State, change func(*State)) State {
		change(&a)
		return a
	}
	for name, row := range map[string]struct {
		spec    limit.Spec
		far     bool
		a       State
		missing int64
		want    bool
	}{
		"nothing is known":                           {perMinute, false, State{Reset: 30_000}, 1, false},
		"nothing is missing":                         {perMinute, true, partial, 0, false},
		"partial":                                    {perMinute, false, partial, 1, true},
		"partial, one is left":                       {perMinute, false, with(partial, func(a *State) { a.Left = 1 }), 1, false},
		"partial ended an interval ago":              {perMinute, false, with(partial, func(a *State) { a.Ends = at - 100 }), 1, false},
		"partial ended nearly an interval ago":       {perMinute, false, with(partial, func(a *State) { a.Ends = at - 99 }), 1, true},
		"partial, and the window is over":            {perMinute, false, with(partial, func(a *State) { a.Reset = at }), 1, false},
		"partial, far, little is left":               {perMinute, true, with(partial, func(a *State) { a.Left = 30 }), 1, true},
		"partial, far, enough is left":               {perMinute, true, with(partial, func(a *State) { a.Left = 31 }), 1, false},
		"partial, far, not enough for it":            {perMinute, true, with(partial, func(a *State) { a.Left = 31 }), 32, true},
		"in the pause, little is left":               {sliding, false, with(partial, func(a *State) { a.Left = 11 }), 1, true},
		"in the pause, enough is left":               {sliding, false, with(partial, func(a *State) { a.Left = 12 }), 1, false},
		"after the pause":                            {sliding, false, with(partial, func(a *State) { a.Left, a.Asked = 1, at-10 }), 5, false},
		"denied":                                     {perMinute, false, denied, 5, true},
		"denied, less than that":                     {perMinute, false, denied, 4, false},
		"a denial ended, and another worker asks":    {perMinute, false, with(denied, func(a *State) { a.Ends, a.Asking = at, true }), 5, true},
		"a denial ended, which was of more":          {perMinute, false, with(denied, func(a *State) { a.Ends, a.Asking = at, true }), 4, false},
		"a denial ended, and that ask was lost":      {perMinute, false, with(denied, func(a *State) { a.Ends, a.Asking, a.Asked = at, true, at-50 }), 5, false},
		"a denial ended, all is missing":             {perMinute, false, with(denied, func(a *State) { a.Ends, a.Left = at, 0 }), 1, true},
		"a denial ended, units come at a known time": {tokens, false, with(denied, func(a *State) { a.Ends, a.Left, a.RetryAt, a.Asked = at-50, 0, at+1, 0 }), 5, true},
		"a denial ended, they are there":             {tokens, false, with(denied, func(a *State) { a.Ends, a.Left, a.RetryAt, a.Asked = at-50, 0, at, 0 }), 5, false},
		"a denial ended when they come":              {tokens, false, with(denied, func(a *State) { a.Ends, a.Left, a.RetryAt, a.Asked = at, 0, at, 0 }), 5, false},
		"a denial ended, two intervals after an ask": {tokens, false, with(denied, func(a *State) { a.Ends, a.Left, a.RetryAt, a.Asked = at-50, 0, at, at-200 }), 5, false},
		"a denial ended, less after an ask":          {tokens, false, with(denied, func(a *State) { a.Ends, a.Left, a.RetryAt, a.Asked = at-50, 0, at, at-199 }), 5, true},
	} {
		terms := termsOf(t, row.spec, lease.Leased)
		if row.far {
			*terms = terms.ForAggregator()
		}
		if got := row.a.Rejects(terms, at, row.missing); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Whether an account may be forgotten.
func TestIdle(t *testing.T) {
	for name, row := range map[string]struct {
		a    State
		want bool
	}{
		"new":                                  {State{}, true},
		"units":                                {State{Leases: [2]Lease{{Units: 1}}}, false},
		"a debt":                               {State{Overdrawn: 1}, false},
		"an ask is under way":                  {State{Asking: true, Asked: at - 49}, false},
		"an ask was lost":                      {State{Asking: true, Asked: at - 50}, true},
		"partial, an interval ago":             {State{Phase: PhasePartial, Ends: at - 100}, true},
		"partial, less ago":                    {State{Phase: PhasePartial, Ends: at - 99}, false},
		"no phase":                             {State{Ends: at + 100}, true},
		"a need is remembered":                 {State{Least: 1, Reset: at + 1}, false},
		"the window of that is over":           {State{Least: 1, Reset: at}, true},
		"a rejection is remembered":            {State{Rejected: true, Reset: at + 1}, false},
		"the number of a debt is kept":         {State{Sealed: Debt{Number: 1}}, false},
		"the number of a debt is kept no more": {State{Sealed: Debt{Number: at - debtMemory}}, true},
		"asks failed":                          {State{Back: Backoff{Failures: 1, Until: at - pauseMemory + 1}}, false},
		"asks failed long ago":                 {State{Back: Backoff{Failures: 1, Until: at - pauseMemory}}, true},
	} {
		if got := row.a.Idle(termsOf(t, perMinute, lease.Leased), at); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if never := (&Debt{}); never.Matters(debtMemory - 1) {
		t.Error("a debt that never was matters")
	}
}

// Whether a holder of slots asks though no request waits.
func TestDue(t *testing.T) {
	h := Holding{May: 8, Until: 2000, TTL: 1000, Asked: at}
	for name, row := range map[string]struct {
		may    int64
		asking bool
		inUse  int64
		now    lease.Millis
		want   bool
	}{
		"too many, within the interval":       {8, false, 2, 1099, false},
		"too many":                            {8, false, 2, 1100, true},
		"an ask is under way":                 {8, true, 2, 1299, false},
		"an ask was lost":                     {8, true, 2, 1300, true},
		"what it keeps in reserve":            {18, false, 16, 1100, false},
		"before half of the time":             {2, false, 2, 1499, false},
		"at half of the time":                 {2, false, 2, 1500, true},
		"more in use than it may have":        {0, false, 1, 1500, true},
		"none":                                {0, false, 0, 1500, false},
		"none in use":                         {1, false, 0, 1999, true},
		"none in use, and the time is over":   {1, false, 0, 2000, false},
		"one in use, though the time is over": {1, false, 1, 2000, true},
	} {
		terms := lease.NewTerms(fatal.Get(limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 20}))(t), lease.Leased, 100, 300, 0)
		h := h
		h.May, h.Asking = row.may, row.asking
		if got := h.Due(&terms, row.now, row.inUse); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, row := range map[string]struct {
		c      lease.Consistency
		now    lease.Millis
		want   lease.Want
		inUse  int64
		waits  int64
		before int64
	}{
		"an eighth is kept":          {lease.Leased, 1999, lease.Want{Holding: 18, Want: 18}, 16, 0, 20},
		"what has lapsed is not":     {lease.Leased, 2000, lease.Want{Holding: 16, Want: 16}, 16, 0, 20},
		"an exact rule keeps no one": {lease.Exact, 1999, lease.Want{Holding: 8, Need: 1, Waiting: 1, Want: 9}, 8, 1, 10},
	} {
		terms := lease.NewTerms(fatal.Get(limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 20}))(t), row.c, 100, 300, 0)
		h := Holding{May: row.before, Until: 2000, TTL: 1000}
		if w := h.Ask(&terms, row.now, row.inUse, row.waits, row.waits); w != row.want {
			t.Errorf("%s: asks %+v", name, w)
		}
	}
}

// What is rejected where that is charged: the leases are used up first, the older one before the other, and a bucket is in
// debt of one limit at most. At the end of a window nothing is charged any more.
func TestPenalty(t *testing.T) {
	spec := tokens
	spec.ChargeRejected = true
	terms := termsOf(t, spec, lease.Leased)
	a := State{Leases: [2]Lease{{Units: 2, Expiry: 9000}, {Units: 5, Expiry: 9000}}, Reset: at + 500}
	if a.Deny(terms, at, 0); a.Rejected {
		t.Error("nothing was rejected")
	}
	a.Deny(terms, at, 4)
	if a.Leases[0].Units != 0 || a.Leases[1].Units != 3 || a.Denied != 0 || a.Reset != at+500 {
		t.Errorf("4 of 2 and 5: %+v", a)
	}
	if a.penalize(terms, at, lease.Want{}, lease.Grant{Status: lease.Denied}); a.Available(at) != 3 {
		t.Errorf("no need was denied: %+v", a)
	}
	if a.Deny(terms, at, 6); a.Denied != 3 || a.Reset != at+800 {
		t.Errorf("6 of 3: %+v", a)
	}
	if a.Deny(terms, at, 100); a.Reset != at+2000 {
		t.Errorf("the debt of a bucket is at most one limit: %+v", a)
	}
	full := State{Reset: at - 700}
	if full.Deny(terms, at, 1); full.Reset != at+100 {
		t.Errorf("a full bucket: %+v", full)
	}
	for _, row := range []struct {
		period limit.Micros
		reset  lease.Millis
		want   bool
	}{{500, at + 51, true}, {500, at + 50, false}, {60_000, at + 101, true}, {60_000, at + 100, false}, {60_000, 0, true}} {
		terms := termsOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 9, Period: row.period * limit.Millisecond, ChargeRejected: true}, lease.Leased)
		a := State{Denied: 1, Reset: row.reset}
		if got := a.owesPenalty(terms, at); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// What a holder rejects where that is charged: its own units are the first that it uses
// up, and the rest is reported to the granter, once, and not after its window.
func TestRejectedUnitsAreCharged(t *testing.T) {
	terms := lease.NewTerms(fatal.Get(limit.New(penal))(t), lease.Leased, 0, 0, 0)
	s := State{Asked: 500, Left: 4, Phase: PhaseDenied, Least: 5, Ends: 1200, Reset: 9000}
	s.Leases[0] = Lease{Units: 2, Expiry: 9000, Lease: 1}
	s.Leases[1] = Lease{Units: 1, From: 9001, Expiry: 19000, Lease: 2}
	if d := s.Take(&terms, 1000, 8); d.Verdict != Reject || s.Available(1000) != 0 || s.Left != 0 || s.Least != 1 || s.Leases[1].Units != 1 {
		t.Fatalf("8 rejected of 2 on lease and 4 above: %+v, %+v", d, s)
	}
	if d := s.Take(&terms, 1000, 1); d.Verdict != Reject {
		t.Fatalf("1 after that: %+v", d)
	}
	late := s
	if w, some := s.Report(&terms, 1100); !some || w.Denied != 7 {
		t.Errorf("reports %+v, want the 8 and 1 less the 2 that were on lease", w)
	}
	if w, some := s.Report(&terms, 1101); some || w.Denied != 0 {
		t.Errorf("reports again: %+v", w)
	}
	if w := late.Ask(&terms, 9000, 1, 1, NoAsk); w.Denied != 0 {
		t.Errorf("reports %d to the next window", w.Denied)
	}
	if !late.Idle(&terms, 9300) && late.Denied > 0 {
		t.Errorf("is kept for what was rejected in a window that is over: %+v", late)
	}
}

// What a reply changes beside the phase.
func TestLearns(t *testing.T) {
	ask := lease.Want{Need: 1, Waiting: 1, Want: 8}
	for name, row := range map[string]struct {
		spec   limit.Spec
		c      lease.Consistency
		before State
		w      lease.Want
		g      lease.Grant
		check  func(*State) bool
	}{
		"a report ends no ask": {perMinute, lease.Leased, State{Asking: true}, lease.Want{}, lease.Grant{Status: lease.OK},
			func(a *State) bool { return a.Asking }},
		"what waited is spent": {perMinute, lease.Leased, State{Spent: 1}, ask, lease.Grant{Status: lease.OK, Granted: 8, TTL: 100, Remaining: 900},
			func(a *State) bool { return a.Spent == 8 && a.Leases[1].Units == 1 }},
		"a lease that has ended goes back": {perMinute, lease.Leased, State{}, ask, lease.Grant{Status: lease.OK, Granted: 8, TTL: 10, Remaining: 900},
			func(a *State) bool { return a.Available(at) == 0 && a.Left == 901 && a.Least == 0 }},
		"a rejection is forgotten with its window": {perMinute, lease.Leased, State{Rejected: true, Reset: at}, ask, lease.Grant{Status: lease.OK, Granted: 8, Reset: 60_000},
			func(a *State) bool { return !a.Rejected }},
		"a rejection stands in its window": {perMinute, lease.Leased, State{Rejected: true, Reset: at + 1}, ask, lease.Grant{Status: lease.OK, Granted: 8, Reset: 60_000},
			func(a *State) bool { return a.Rejected }},
		"an older reply of a window": {perMinute, lease.Optimistic, State{Left: 3, Reset: at + 1}, lease.Want{}, lease.Grant{Status: lease.OK, Remaining: 5},
			func(a *State) bool { return a.Left == 3 }},
		"the first reply of a window": {perMinute, lease.Optimistic, State{Left: 3, Reset: at}, lease.Want{}, lease.Grant{Status: lease.OK, Remaining: 5},
			func(a *State) bool { return a.Left == 5 }},
		"a reply of a bucket": {tokens, lease.Optimistic, State{Left: 3, Reset: at + 1}, lease.Want{}, lease.Grant{Status: lease.OK, Remaining: 5},
			func(a *State) bool { return a.Left == 5 }},
		"the window is over, which is known": {perMinute, lease.Leased, State{Reset: 500}, lease.Want{}, lease.Grant{Status: lease.OK},
			func(a *State) bool { return a.Reset == 500 }},
		"the window is over": {perMinute, lease.Leased, State{Reset: at + 9}, lease.Want{}, lease.Grant{Status: lease.OK},
			func(a *State) bool { return a.Reset == at }},
		"units came back above": {perMinute, lease.Leased, State{Least: 3, Reset: at + 9}, lease.Want{}, lease.Grant{Status: lease.OK, Remaining: 5, Reset: 9},
			func(a *State) bool { return a.Least == 6 }},
		"a failure after another": {perMinute, lease.Leased, State{Back: Backoff{Failures: 2}}, ask, lease.Grant{Status: lease.Unavailable},
			func(a *State) bool { return a.Back.Until == at+200 }},
		"units come at a time": {perMinute, lease.Leased, State{}, ask, lease.Grant{Status: lease.OK, Granted: 8, RetryAfter: 70},
			func(a *State) bool { return a.RetryAt == at+70 && a.RetryFor == 1 }},
		"nothing waits, and a failure": {perMinute, lease.Leased, State{Phase: PhaseDenied, Ends: at + 9, Least: 8}, lease.Want{}, lease.Grant{Status: lease.Unavailable},
			func(a *State) bool { return a.Phase == PhaseNone && a.Least == 8 && a.Back.Failures == 1 }},
		"a denied need that is charged": {penal, lease.Leased, State{Leases: [2]Lease{{Units: 2, Expiry: 9000}}}, ask, lease.Grant{Status: lease.Denied},
			func(a *State) bool { return a.Available(at) == 0 }},
		"units are left": {perMinute, lease.Leased, State{RetryAt: 5}, ask, lease.Grant{Status: lease.OK, Granted: 8, Remaining: 900},
			func(a *State) bool { return a.RetryAt == 0 }},
		"another of the group was denied": {perMinute, lease.Leased, State{RetryAt: 5}, ask, lease.Grant{Status: lease.OK, RetryAfter: 70, Remaining: 900},
			func(a *State) bool { return a.RetryAt == 5 && a.Least == 0 }},
	} {
		a := row.before
		unused := max(0, row.g.Granted-7)
		if a.Apply(termsOf(t, row.spec, row.c), at, at-10, row.w, row.g, unused, 100); !row.check(&a) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// The reply to a group that another rule denied acknowledges the debt, and ends the wait of an exact rule.
func TestAppliesADeniedGroup(t *testing.T) {
	for name, row := range map[string]struct {
		c     lease.Consistency
		phase Phase
		ends  lease.Millis
	}{
		"exact":      {lease.Exact, PhaseDenied, at},
		"not denied": {lease.Exact, PhasePartial, at + 9},
		"leased":     {lease.Leased, PhaseDenied, at + 9},
	} {
		a, terms := State{Phase: row.phase, Ends: at + 9, Asking: true}, termsOf(t, perMinute, row.c)
		a.Owe(terms, 5)
		w := a.Ask(terms, at, 1, 1, NoAsk)
		if a.ApplyGroupDenied(terms, at, at, w, lease.Grant{Status: lease.OK, Remaining: 3}); a.Overdrawn != 0 || a.Asking || a.Ends != row.ends {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// After how long a client comes back: when the counter has the units, and the holder would ask.
func TestRetry(t *testing.T) {
	for name, row := range map[string]struct {
		spec limit.Spec
		c    lease.Consistency
		a    State
		cost int64
		want lease.Millis
	}{
		"the window ends":                     {perMinute, lease.Exact, State{Reset: at + 700}, 1, 700},
		"a phase that is no denial":           {perMinute, lease.Exact, State{Phase: PhasePartial, Ends: at + 900, Reset: at + 700}, 1, 700},
		"a denial lasts longer":               {perMinute, lease.Exact, State{Phase: PhaseDenied, Ends: at + 900, Least: 1, Reset: at + 700}, 1, 900},
		"enough is left":                      {perMinute, lease.Exact, State{Left: 5, Overdrawn: 2, Reset: at + 700}, 3, 1},
		"not enough, beside what it owes":     {perMinute, lease.Exact, State{Left: 5, Overdrawn: 2, Reset: at + 700}, 4, 700},
		"enough is left, which is denied":     {perMinute, lease.Exact, State{Left: 5, Phase: PhaseDenied, Least: 3, Reset: at + 700}, 3, 700},
		"less than was denied":                {perMinute, lease.Exact, State{Left: 5, Phase: PhaseDenied, Least: 3, Reset: at + 700}, 2, 1},
		"more than the limit":                 {perMinute, lease.Exact, State{Reset: at + 700}, 1001, lease.Never},
		"a bucket refills":                    {tokens, lease.Exact, State{Reset: at + 1000, Overdrawn: 2}, 3, 500},
		"a bucket is full":                    {tokens, lease.Exact, State{Reset: at}, 1, 1},
		"until two intervals after an ask":    {tokens, lease.Leased, State{Left: 5, Reset: at + 900}, 1, 250},
		"no longer than the window":           {perMinute, lease.Leased, State{Left: 5, Reset: at + 120}, 1, 120},
		"at a time that was stated":           {sliding, lease.Exact, State{Reset: at + 700, RetryAt: at + 400, RetryFor: 3}, 3, 400},
		"for a cost that was not":             {sliding, lease.Exact, State{Reset: at + 700, RetryAt: at + 400, RetryFor: 3}, 4, 700},
		"never, for as much as was asked for": {sliding, lease.Exact, State{Reset: at + 700, RetryAt: lease.Never, RetryFor: 3}, 3, lease.Never - at},
		"never, which says nothing of less":   {sliding, lease.Exact, State{Reset: at + 700, RetryAt: lease.Never, RetryFor: 3}, 2, 700},
	} {
		if got := row.a.Retry(termsOf(t, row.spec, row.c), at, row.cost); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

// What is left of an account after small changes.
func TestSmallChanges(t *testing.T) {
	terms := termsOf(t, perMinute, lease.Leased)
	a := State{Spent: 5, Overdrawn: 5}
	if a.Refund(terms, Taken{Overdrawn: 3}); a.Spent != 2 || a.Overdrawn != 2 {
		t.Errorf("refunded 3 of 5: %+v", a)
	}
	a = State{Phase: PhaseDenied, Ends: at + 9, Least: 3, Reset: 30_000, Leases: [2]Lease{{Units: 1, Expiry: at}}}
	if d := a.Take(terms, at, 3); d.Verdict != Wait {
		t.Errorf("2 of 3 are missing, and 3 are denied: %+v", d)
	}
	exact := termsOf(t, perMinute, lease.Exact)
	a = State{Phase: PhaseDenied, Ends: 5000, Least: 1}
	if free, denied := a.Take(exact, at, 0), a.Take(exact, at, 1); free.Verdict != Admit || denied.Verdict != Reject {
		t.Errorf("what costs nothing: %+v, and what costs a unit: %+v", free, denied)
	}
	a = State{Phase: PhaseDenied, Ends: at, Least: 1}
	for i, verdict := range []Verdict{Wait, Reject, Reject, Wait} { // one request asks, and an interval later the next one
		if d := a.Take(exact, at+[]lease.Millis{0, 0, 99, 100}[i], 1); d.Verdict != verdict {
			t.Errorf("request %d after a denial: %+v", i, d)
		}
		if i == 0 {
			a.Ask(exact, at, 1, 1, NoAsk)
		}
	}
	for _, row := range []struct{ ends, after, least lease.Millis }{{at, at + 100, 2}, {at, at, 3}, {at + 500, at + 500, 2}} {
		a = State{Phase: PhaseDenied, Ends: row.ends, Least: int64(row.least)}
		if a.Ask(exact, at, 2, 2, NoAsk); a.Ends != row.after {
			t.Errorf("an ask for 2 of a key that is denied from %d: %+v", row.least, a)
		}
	}
	a = State{Back: Backoff{Failures: 1}}
	if a.Ask(terms, at, 1, 1, NoAsk); a.Back.Until != at+50 || a.Back.Failures != 2 {
		t.Errorf("an ask after a failure is the only one until its timeout: %+v", a.Back)
	}
	for units, log2 := range map[int64]uint8{4: 5, 5: 4} {
		a = State{WantLog2: 5, Size: 8, Leases: [2]Lease{{Units: units, Expiry: at}}}
		if a.Report(terms, at); a.WantLog2 != log2 {
			t.Errorf("%d of 8 lapsed: wants 2^%d", units, a.WantLog2)
		}
	}
	for _, younger := range []int64{3, 5} { // of two that are equal, the older one goes back
		a = State{Leases: [2]Lease{{Units: 5, Expiry: 9000, Lease: 1}, {Units: younger, Expiry: 9000, Lease: 2}}}
		if w := a.Ask(terms, at, 9, 9, NoAsk); w.Lease != 1 || w.Unused != 5 {
			t.Errorf("of 5 and %d goes back %+v", younger, w)
		}
	}
	f := lease.FailureDeny.Among(1, 1, perMinute, at, 0)
	for _, a := range []State{{Reset: 9000}, {Reset: 9000, Rejected: true}} {
		if d := a.Fail(terms, at, f, 1); d.Reset != 8000 {
			t.Errorf("%+v: %+v", a, d)
		}
	}
}
