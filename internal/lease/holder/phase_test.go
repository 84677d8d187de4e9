package holder

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// The table in doc.go is the one that the code has.
func TestDocumentsTheTransitions(t *testing.T) {
	names := [phases]string{"fresh", "leased", "partial", "denied", "failing"}
	lines := strings.Split("nothing covered partly denial cheaper ahead undecided forgotten", " ")
	var table strings.Builder
	fmt.Fprintf(&table, "//\t%-10s", "")
	for _, name := range names {
		fmt.Fprintf(&table, " %-8s", name)
	}
	for e := range event(events) {
		fmt.Fprintf(&table, "\n//\t%-10s", lines[e])
		for p := range Phase(phases) {
			fmt.Fprintf(&table, " %-8s", names[next(p, e)])
		}
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if line = strings.TrimRight(line, " \n"); !strings.Contains(string(text), line+"\n") {
			t.Errorf("doc.go does not have %q", line)
		}
	}
}

// A holder is brought into each phase by replies, and each reply then moves it as the table says.
func TestWalksTheTransitions(t *testing.T) {
	spec := perMinute
	replies := map[event]lease.Grant{
		covered:   {Status: lease.OK, Granted: 8, TTL: 10_000, Limit: 1000, Remaining: 900, Reset: 20_000},
		partly:    {Status: lease.OK, Granted: 2, TTL: 10_000, Limit: 1000, Reset: 20_000},
		denial:    {Status: lease.Denied, RetryAfter: 20_000, AskAfter: 500, Limit: 1000, Reset: 20_000},
		cheaper:   {Status: lease.OK, Granted: 1, TTL: 10_000, Limit: 1000, Remaining: 3, Reset: 20_000},
		ahead:     {Status: lease.OK, Granted: 8, StartsIn: 100, TTL: 10_000, Limit: 1000, Remaining: 900, Reset: 20_000},
		undecided: {Status: lease.Unavailable},
	}
	enter := [phases][]event{PhaseLeased: {covered}, PhasePartial: {partly}, PhaseDenied: {denial}, PhaseFailing: {undecided}}
	terms := lease.NewTerms(newLimit(t, spec), lease.Leased, 0, 0, 0)
	for from := range Phase(phases) {
		for e := range event(events) {
			var a State
			now := lease.Millis(1000)
			apply := func(e event) {
				switch g, replied := replies[e]; {
				case replied:
					w := a.Ask(&terms, now, 8, 8, NoAsk)
					a.Apply(&terms, now, now, w, g, 0, 100)
				case e == nothing:
					a.Apply(&terms, now, now, lease.Want{}, lease.Grant{Status: lease.OK, Limit: 1000, Reset: 20_000}, 0, 100)
				case e == forgotten:
					a.Unlearn()
				}
				now += 4
			}
			for _, e := range enter[from] {
				apply(e)
			}
			if a.Phase != from {
				t.Fatalf("in phase %d, not %d", a.Phase, from)
			}
			if e == covered || e == partly {
				a.Ends = now // a denial is over
			}
			apply(e)
			if want := next(from, e); a.Phase != want {
				t.Errorf("event %d moves phase %d to %d, not %d", e, from, a.Phase, want)
			}
			if (a.Phase == PhaseFailing) != (a.Back.Failures > 0) {
				t.Errorf("phase %d with %+v", a.Phase, a.Back)
			}
		}
	}
}

// A phase that refuses ends: then the holder asks behind refused requests for an interval, and properly after it.
func TestPhasesEnd(t *testing.T) {
	for phase, asks := range map[Phase]lease.Millis{PhasePartial: 1000, PhaseDenied: 1100} {
		s := newStory(t, perMinute, lease.Leased)
		s.account = State{Phase: phase, Ends: 1100, Least: 1, Asked: 1000, Reset: 30_000}
		s.take(1099, 1, Refuse, map[bool]Asks{true: TopUp}[asks < 1100])
		s.take(1199, 1, Refuse, TopUp)
		s.take(1200, 1, Wait, NoAsk)
	}
}

// Who comes back when the denial said so is not refused: the request asks.
func TestComesBackAtRetryAfter(t *testing.T) {
	s := newStory(t, limit.Spec{Count: 1, Period: limit.Second}, lease.Leased)
	s.ask(1000, 1, 1, NoAsk)
	s.reply(1000, lease.Grant{Status: lease.Denied, RetryAfter: 1000, AskAfter: 1000, Limit: 1, Reset: 1000})
	s.take(1999, 1, Refuse, NoAsk)
	s.take(2000, 1, Wait, NoAsk)
}

// A probe of an exact rule that is denied at once rests for the interval that it claimed.
func TestDeniedProbeRests(t *testing.T) {
	s := newStory(t, perMinute, lease.Exact)
	s.account = State{Phase: PhaseDenied, Ends: 1004, Least: 1, Asked: 1000, Reset: 30_000}
	s.take(1004, 1, Wait, NoAsk)
	s.ask(1004, 1, 1, NoAsk)
	s.reply(1005, lease.Grant{Status: lease.Denied, RetryAfter: 4, AskAfter: 4, Limit: 1000, Reset: 30_000})
	s.take(1103, 1, Refuse, NoAsk)
	s.take(1104, 1, Wait, NoAsk)
}
