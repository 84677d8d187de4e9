package rounds_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/rounds"
)

// Two rules apply to a request, and their counters are on two nodes. One denies, so nothing is
// charged at the other.
func Example() {
	var group rounds.Group
	var user, login rounds.Member
	group.Join(&user)
	group.Join(&login)

	want := lease.Want{Need: 1, Waiting: 1, Want: 1}
	group.Reply(&user, &want, lease.Grant{Status: lease.OK, Remaining: 7}, true)
	group.Reply(&login, &want, lease.Grant{Status: lease.Denied, RetryAfter: 2000}, false)

	fmt.Println("another round:", group.Turn(), "- over:", group.Round == rounds.Over)
	fmt.Println("user is granted", user.Grant.Granted, "- login is denied:", login.Grant.Status == lease.Denied)
	// Output:
	// another round: true - over: true
	// user is granted 0 - login is denied: true
}
