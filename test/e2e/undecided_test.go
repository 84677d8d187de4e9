package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/stack"
)

// A region that answers, and decides nothing, is asked for a hot key a few times, and
// then once a second. What is admitted meanwhile is told as one debt, however often, and
// when the region decides again so do the limits.
func TestRegionDecidesNothing(t *testing.T) {
	for _, status := range []quotapb.Status{quotapb.Status_STATUS_UNAVAILABLE, quotapb.Status_STATUS_UNKNOWN_RULE} {
		f := newFakeRegion(t)
		s := stack.Start(t, stack.Config{PoPs: 1, Workers: 4, RegionAddr: f.addr})
		awaitRules(t, s)
		t.Run(status.String(), func(t *testing.T) { // both at once, when both PoPs have started
			t.Parallel()
			undecided := edit(func(r *quotapb.AcquireResponse) {
				for _, g := range r.Grants {
					*g = quotapb.Grant{Status: status} //nolint:govet // it has just been made
				}
			}, nil)
			f.answer.Store(&undecided)
			hot := func(d time.Duration) *drive.Result {
				t.Helper()
				tally, err := drive.Run(t.Context(), drive.Load{
					Addrs: s.Addrs(), Conns: 8, PerSecond: 500, Until: time.Now().Add(d),
					Request: func(b []byte, _ int64) []byte {
						return fmt.Append(b, "GET /fail-allow HTTP/1.1\r\nhost: pop\r\nx-user: hot\r\n\r\n")
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				return tally
			}
			first := hot(time.Second)
			begun := f.wants.Load()
			later := hot(3 * time.Second)
			wants := f.wants.Load() - begun
			t.Logf("%d and %d requests, asked %d times in the first second and %d times in the next three", first.Sent(), later.Sent(), begun, wants)
			if begun == 0 || begun > 14 || wants > 6 {
				t.Errorf("a key that nobody decides on was asked for %d times in a second and %d times in the next three, want at most 14 and 6", begun, wants)
			}
			f.answer.Store(&good)
			hot(3 * time.Second)
			var owed uint64
			f.debts.Range(func(number, units any) bool {
				if owed += units.(uint64); number.(uint64) == 0 && units.(uint64) > 0 {
					t.Errorf("a debt of %d has no number of its own", units)
				}
				return true
			})
			if owed < 10 || owed > 14 { // once that is acknowledged, a worker may admit one more before it learns of it
				t.Errorf("%d units were told as debts, want one limit, which is 10, and one more for each worker at most", owed)
			}
		})
	}
}
