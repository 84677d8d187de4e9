package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// Whom the granter denied, or granted less than waited, is rejected; what a group
// lost to another rule is not.
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
