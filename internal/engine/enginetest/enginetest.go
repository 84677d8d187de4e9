// Package enginetest is the conformance suite of every [engine.Store].
package enginetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Subject is a store under test.
type Subject struct {
	// New makes an empty store. It ends with the test.
	New func(t testing.TB, o Options) engine.Store
	// Cached is true if something in front of the counters grants leases of its
	// own: answers are then not those of one counter to the unit, but every bound
	// holds.
	Cached bool
	// Unbounded is true if the store itself has no bound that a test could reach:
	// the cases that fill it are left out.
	Unbounded bool
	// Lose makes a store lose all its counters; nil: it cannot be made to, and the case is left
	// out.
	Lose func(t testing.TB, s engine.Store)
	// Distant is true if every call takes its time, as through TLS on a crowded machine,
	// and if another subject has the same counters without that distance. AnswersAsOneCounter,
	// which makes thousands of calls, is left out.
	Distant bool
	// Doubts is true if the store charges only a part of the limit for what a holder states to owe, repetitions
	// included, and takes back of a log only what it granted in the same period. AnswersAsOneCounter then has
	// neither, and DebtIsChargedOnce a larger limit.
	Doubts bool
	// Asked is how many asks a cached store has sent to what is behind it; nil: it
	// cannot be found out.
	Asked func(engine.Store) uint64
	// Settle lets a cached store do what it does behind its callers. Nil otherwise.
	Settle func(engine.Store)
}

// Options are what a store under test is made with.
type Options struct {
	Now     func() limit.Micros // the clock of its counters, which may step
	Steady  func() limit.Micros // a clock that never steps
	MaxKeys int                 // how many keys it has to have room for; 0: plenty
	// Tight is true if the store must have room for hardly more than MaxKeys.
	Tight bool
}

// Run runs every case on stores of s.
func Run(t *testing.T, s Subject) {
	if !s.Cached && !s.Distant {
		t.Run("AnswersAsOneCounter", func(t *testing.T) { answersAsOneCounter(t, s) })
	}
	if !s.Unbounded {
		t.Run("FullTable", func(t *testing.T) { fullTable(t, s) })
		t.Run("SpentKeySurvivesAFlood", func(t *testing.T) { spentKeySurvives(t, s) })
	}
	if s.Lose != nil {
		t.Run("Forgetting", func(t *testing.T) { forgetting(t, s) })
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"Hammer", hammer},
		{"ClockSteps", clockSteps},
		{"LookAndReset", lookAndReset},
		{"Blocks", blocks},
		{"ResetUnderLeases", resetUnderLeases},
		{"ResetKeepsSlots", resetKeepsSlots},
		{"CountersAreApart", countersAreApart},
		{"CountsOfRequests", countsOfRequests},
		{"KeysAreCopied", keysAreCopied},
		{"GiveBack", giveBack},
		{"DebtIsChargedOnce", debtIsChargedOnce},
		{"ExactKeepsNothing", exactKeepsNothing},
		{"GroupDenied", groupDenied},
		{"GroupSettlesWhatItReports", groupSettles},
		{"GroupHammer", groupHammer},
		{"Slots", slots},
		{"SlotsLateStatement", slotsLateStatement},
		{"SlotsInAGroup", slotsInAGroup},
		{"SlotsHammer", slotsHammer},
		{"RequestSlots", requestSlots},
		{"ReportsTakeNoRoom", reportsTakeNoRoom},
		{"Deadline", deadline},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// start is when the tests begin: a moment into a day, an hour and a minute.
const start = 20_000*limit.Day + 3*limit.Hour + 7*limit.Minute + 5*limit.Millisecond

// clock is a clock that only moves by advance. It is safe for concurrent use.
type clock struct{ at, stepped atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(int64(start))
	return c
}

func (c *clock) now() limit.Micros    { return limit.Micros(c.at.Load() + c.stepped.Load()) }
func (c *clock) steady() limit.Micros { return limit.Micros(c.at.Load()) }

// advance lets time pass; step sets the clock right, or wrong.
func (c *clock) advance(by limit.Micros) { c.at.Add(int64(by)) }
func (c *clock) step(by limit.Micros)    { c.stepped.Add(int64(by)) }

// options are for a store on this clock.
func (c *clock) options() Options { return Options{Now: c.now, Steady: c.steady} }

// begin makes an empty store on a clock of its own, and a policy for the rule "r".
func (s Subject) begin(t testing.TB, spec limit.Spec, change ...func(*lease.Terms)) (*clock, engine.Store, *engine.Policy) {
	clk, store := s.empty(t)
	return clk, store, policyOf(t, spec, change...)
}

func (s Subject) empty(t testing.TB) (*clock, engine.Store) {
	clk := newClock()
	return clk, s.New(t, clk.options())
}

// tight is empty for a store that has room for hardly more than so many keys.
func (s Subject) tight(t testing.TB, keys int) (*clock, engine.Store) {
	clk := newClock()
	return clk, s.New(t, Options{Now: clk.now, Steady: clk.steady, MaxKeys: keys, Tight: true})
}

// policyOf makes a policy of a limit for the rule "r".
func policyOf(t testing.TB, spec limit.Spec, change ...func(*lease.Terms)) *engine.Policy {
	return named(t, "r", 0, spec, change...)
}

func named(t testing.TB, rule string, override uint64, spec limit.Spec, change ...func(*lease.Terms)) *engine.Policy {
	t.Helper()
	l := fatal.Get(limit.New(spec))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	for _, c := range change {
		c(&terms)
	}
	return engine.NewPolicy(rule, override, l, terms)
}

func exact(t *lease.Terms) { t.Consistency, t.Lead = lease.Exact, 0 }

// one is a want of a request that waits for so many units and wants no more.
func one(units int64) lease.Want { return lease.Want{Need: units, Waiting: units, Want: units} }

// acquire asks for one counter.
func acquire(t testing.TB, s engine.Store, p *engine.Policy, key string, w lease.Want) lease.Grant {
	t.Helper()
	return acquireAll(t, s, engine.Ask{Policy: p, Key: []byte(key), Want: w})[0]
}

// rejected checks that a grant is a denial; when is what it is about.
func rejected(t testing.TB, g lease.Grant, when string) {
	t.Helper()
	if g.Status != lease.Denied {
		t.Errorf("%s: %+v, want a denial", when, g)
	}
}

func acquireAll(t testing.TB, s engine.Store, asks ...engine.Ask) []lease.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	grants := make([]lease.Grant, len(asks))
	if s.Acquire(ctx, asks, grants); ctx.Err() != nil {
		t.Fatalf("%+v of %+v took ten seconds", grants, asks)
	}
	for i, g := range grants {
		w := asks[i].Want
		switch {
		case g.Status < lease.OK || g.Status > lease.Unavailable:
			t.Fatalf("ask %d: status %d, a store answers OK, Denied or Unavailable", i, g.Status)
		case asks[i].Holder == 0 && g.Granted != 0 && (g.Granted < w.Need || g.Granted > w.Want):
			t.Fatalf("ask %d: granted %d to %+v", i, g.Granted, w)
		}
	}
	return grants
}

// drain asks for single units until it is denied, and counts them. A store that goes
// on for longer than any could fails.
func drain(t testing.TB, s engine.Store, p *engine.Policy, key string) (units int64) {
	t.Helper()
	for {
		if units > 10*p.Terms.Capacity {
			t.Fatalf("%d units of a limit of %d, and still not denied", units, p.Terms.Capacity)
		}
		g := acquire(t, s, p, key, one(1))
		if g.Granted == 0 {
			if g.Status != lease.Denied {
				t.Fatalf("after %d units: status %d, want Denied", units, g.Status)
			}
			return units
		}
		units += g.Granted
	}
}

// leaves drains a counter of which so many units have to be left; when is what it is about.
func leaves(t testing.TB, s engine.Store, p *engine.Policy, key string, units int64, when string, args ...any) {
	t.Helper()
	if got := drain(t, s, p, key); got != units {
		t.Errorf("%s: %d units were left, want %d", fmt.Sprintf(when, args...), got, units)
	}
}

// least is how much of so many units a store uses up at least.
func (s Subject) least(units int64) int64 {
	if s.Cached {
		return units * 98 / 100
	}
	return units
}

// drainAll drains a counter, and again for a while what a cache gave back and may
// then ask for again.
func drainAll(t testing.TB, s Subject, c *clock, store engine.Store, p *engine.Policy, key string) int64 {
	t.Helper()
	units := drain(t, store, p, key)
	for i := 0; s.Cached && i < 20; i++ {
		s.Settle(store)
		c.advance(100 * limit.Millisecond)
		units += drain(t, store, p, key)
	}
	return units
}

// bucket, fixed, sliding and logged are limits of count units per period.
func bucket(count int64, per limit.Micros) limit.Spec {
	return limit.Spec{Algorithm: limit.TokenBucket, Count: count, Period: per}
}

func fixed(count int64, per limit.Micros) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: per}
}

func sliding(count int64, per limit.Micros) limit.Spec {
	return limit.Spec{Algorithm: limit.SlidingWindow, Count: count, Period: per}
}

func logged(count int64, per limit.Micros) limit.Spec {
	return limit.Spec{Algorithm: limit.SlidingLog, Count: count, Period: per}
}

func slotted(count int64) limit.Spec { return limit.Spec{Algorithm: limit.Concurrency, Count: count} }

// everyAlgorithm runs a case for each algorithm that counts units.
func everyAlgorithm(t *testing.T, count int64, per limit.Micros, run func(*testing.T, limit.Spec)) {
	for name, spec := range map[string]limit.Spec{
		"bucket":  bucket(count, per),
		"fixed":   fixed(count, per),
		"sliding": sliding(count, per),
		"log":     logged(count, per),
	} {
		t.Run(name, func(t *testing.T) { run(t, spec) })
	}
}
