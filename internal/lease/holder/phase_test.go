package holder

import (
	"reflect"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Each reply moves a holder of each phase, whose time is over or not.
func TestFollows(t *testing.T) {
	const now = 1000
	none, partial := State{}, State{Phase: PhasePartial, Ends: now + 9}
	ending, probed := State{Reset: now + 17}, State{Phase: PhaseDenied, Ends: now + 100, Least: 8, Reset: now + 17}
	denied, over := State{Phase: PhaseDenied, Ends: now + 500, Least: 8}, State{Phase: PhaseDenied, Ends: now, Least: 8}
	for name, row := range map[string]struct {
		reply  lease.Grant
		after  map[*State]State // by the state before
		exact  bool
		noNeed bool
	}{
		"much is left": {reply: lease.Grant{Status: lease.OK, Granted: 8, Remaining: 900}, after: map[*State]State{
			&none: none, &partial: {Ends: now + 9}, &denied: {Phase: PhaseDenied, Ends: now + 500, Least: 901}, &over: {Ends: now}}},
		"nothing is left": {reply: lease.Grant{Status: lease.OK, Granted: 2}, after: map[*State]State{
			&none: {Phase: PhasePartial, Ends: now + 100}, &partial: {Phase: PhasePartial, Ends: now + 100},
			&denied: {Phase: PhaseDenied, Ends: now + 500, Least: 1}, &over: {Phase: PhasePartial, Ends: now + 100}}},
		"a little is left": {reply: lease.Grant{Status: lease.OK, Granted: 2, Remaining: 5}, after: map[*State]State{
			&none: {Phase: PhasePartial, Ends: now + 100}, &denied: {Phase: PhaseDenied, Ends: now + 500, Least: 6}}},
		"a little, which is all that was wanted": {reply: lease.Grant{Status: lease.OK, Granted: 8, Remaining: 5}, after: map[*State]State{
			&none: none, &partial: {Ends: now + 9}}},
		"enough is left": {reply: lease.Grant{Status: lease.OK, Granted: 2, Remaining: 31}, after: map[*State]State{
			&none: none, &partial: {Ends: now + 9}}},
		"a little, of an exact rule": {exact: true, reply: lease.Grant{Status: lease.OK, Granted: 2, Remaining: 5}, after: map[*State]State{
			&none: none, &partial: {Ends: now + 9}}},
		"another of the group was denied": {reply: lease.Grant{Status: lease.OK, Remaining: 900}, after: map[*State]State{
			&none: none, &partial: partial, &denied: denied, &over: over}},
		"another of the group was denied, and nothing is left": {reply: lease.Grant{Status: lease.OK}, after: map[*State]State{
			&none: {Phase: PhasePartial, Ends: now + 100}, &denied: denied, &over: {Phase: PhasePartial, Ends: now + 100}}},
		"a denial": {reply: lease.Grant{Status: lease.Denied, AskAfter: 300, Remaining: 5}, after: map[*State]State{
			&none: {Phase: PhaseDenied, Ends: now + 300, Least: 6}, &partial: {Phase: PhaseDenied, Ends: now + 300, Least: 6},
			&denied: {Phase: PhaseDenied, Ends: now + 300, Least: 6}, &over: {Phase: PhaseDenied, Ends: now + 300, Least: 6},
			&ending: {Phase: PhaseDenied, Ends: now + 17, Least: 6, Reset: now + 17}}},
		"a denial of less than is left": {reply: lease.Grant{Status: lease.Denied, AskAfter: 300, Remaining: 50}, after: map[*State]State{
			&none: {Phase: PhaseDenied, Ends: now + 300, Least: 7}}},
		"a denial of no need": {noNeed: true, reply: lease.Grant{Status: lease.Denied, AskAfter: 300, Remaining: 50}, after: map[*State]State{
			&none: {Phase: PhaseDenied, Ends: now + 300, Least: 51}}},
		"a denial of an exact rule": {exact: true, reply: lease.Grant{Status: lease.Denied, AskAfter: 300, Remaining: 5}, after: map[*State]State{
			&denied: {Phase: PhaseDenied, Ends: now + 500, Least: 6}, &over: {Phase: PhaseDenied, Ends: now + 300, Least: 6},
			&probed: {Phase: PhaseDenied, Ends: now + 17, Least: 6, Reset: now + 17}}},
		"of the next window": {reply: lease.Grant{Status: lease.OK, Granted: 8, StartsIn: 50}, after: map[*State]State{
			&none: none, &partial: partial, &denied: {Phase: PhaseDenied, Ends: now + 51, Least: 8}, &over: {Phase: PhaseDenied, Ends: now + 51, Least: 8}}},
	} {
		for before, after := range row.after {
			a := *before
			terms := lease.NewTerms(fatal.Get(limit.New(perMinute))(t), lease.Leased, 0, 0, 0).ForAggregator()
			if row.exact {
				terms.Consistency = lease.Exact
			}
			w := lease.Want{Need: 7, Waiting: 8, Want: 8}
			if row.noNeed {
				w.Need = 0
			}
			if a.follow(&terms, now, w, row.reply); !reflect.DeepEqual(a, after) {
				t.Errorf("%s: %+v becomes %+v, not %+v", name, *before, a, after)
			}
		}
	}
}

// Whom the granter denied, or granted less than waited, is rejected; what a group lost to another rule is not.
func TestWhatRejects(t *testing.T) {
	for _, c := range []struct {
		waiting  int64
		g        lease.Grant
		rejected bool
	}{
		{1, lease.Grant{Status: lease.OK, Granted: 1}, false},
		{2, lease.Grant{Status: lease.OK, Granted: 1}, true},
		{1, lease.Grant{Status: lease.Denied}, true},
		{0, lease.Grant{Status: lease.Denied}, false},
		{1, lease.Grant{Status: lease.OK}, false},
		{1, lease.Grant{Status: lease.Unavailable}, false},
		{600, lease.Grant{Status: lease.Denied, Remaining: 599}, false},
	} {
		s := newStory(t, perMinute, lease.Leased)
		s.want = s.account.Ask(&s.terms, 1000, c.waiting, c.waiting, NoAsk)
		c.g.Reset = 1000
		s.reply(1004, c.g)
		if s.account.Rejected != c.rejected {
			t.Errorf("%d waited and got %+v: rejected %v", c.waiting, c.g, s.account.Rejected)
		}
	}
}
