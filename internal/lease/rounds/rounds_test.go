package rounds_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/rounds"
)

// The second question is without what the first has settled, and the third gives back to
// the lease of the second. A holder of slots keeps those that it has.
func TestQuestions(t *testing.T) {
	var g rounds.Group
	var m [2]rounds.Member
	w := [2]lease.Want{
		{Need: 1, Waiting: 2, Want: 8, Next: true, Unused: 5, Lease: 3, Overdrawn: 4, Debt: 9, Denied: 6, Fresh: true, Holding: 2},
		{Need: 1, Waiting: 1, Want: 1},
	}
	for i := range m {
		g.Join(&m[i])
	}
	for i := range m {
		g.Reply(&m[i], &w[i], lease.Grant{Status: lease.OK}, true)
	}
	for g.Turn(); !g.Asks(&m[0], &w[0]) || !g.Asks(&m[1], &w[1]); {
		t.Fatal("not charged")
	}
	if want := (lease.Want{Need: 1, Waiting: 2, Want: 8, Next: true, Holding: 2}); w[0] != want {
		t.Errorf("charge %+v, want %+v", w[0], want)
	}
	g.Reply(&m[0], &w[0], lease.Grant{Status: lease.OK, Granted: 8, Lease: 11, Limit: 100}, false)
	g.Reply(&m[1], &w[1], lease.Grant{Status: lease.Denied}, false)
	if g.Turn(); !g.Asks(&m[0], &w[0]) || g.Asks(&m[1], &w[1]) {
		t.Fatal("not given back")
	}
	if want := (lease.Want{Unused: 8, Lease: 11, Want: 2, Holding: 2}); w[0] != want {
		t.Errorf("give back %+v, want %+v", w[0], want)
	}
	if want := (lease.Grant{Status: lease.OK, Granted: 2, Limit: 100}); m[0].Grant != want {
		t.Errorf("answered %+v, want %+v", m[0].Grant, want)
	}
}
