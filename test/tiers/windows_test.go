package tiers

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A request that one window of a rule refuses costs nothing on the others, also where these are in
// another shard of Redis.
func TestWindowsInRedis(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	r := newReplica(t, "replica", `
rules:
  - { name: login, key: [ { header: x-user } ], limits: [10/1d, 4/2d], algorithm: fixed_window, consistency: exact }
`, c.Addrs())
	r.Begin()
	r.AwaitReady()
	h := r.newHolder()
	for _, key := range []string{"ann", "bob", "cid", "dan"} { // in different shards
		granted := 0
		for range 20 {
			h.seq++
			resp, err := h.client.Acquire(t.Context(), connect.NewRequest(&quotapb.AcquireRequest{
				Protocol: 1, Holder: h.id, Seq: h.seq,
				Wants: []*quotapb.Want{
					{Rule: "login", Key: []byte(key), Need: 1, Waiting: 1, Want: 1, Group: 1},
					{Rule: "login@2d", Key: []byte(key), Need: 1, Waiting: 1, Want: 1, Group: 1},
				},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if g := resp.Msg.GetGrants(); g[0].GetGranted() == 1 && g[1].GetGranted() == 1 {
				granted++
			}
		}
		if granted != 4 {
			t.Errorf("%s: %d admitted, the longer window has 4", key, granted)
		}
		var left uint64
		proc.Eventually(t, 10*time.Second, "the shorter window has what the longer one refused", func() bool {
			units, _ := drained(t, "login", key, r)
			left += units
			return left >= 6
		})
		if left != 6 {
			t.Errorf("%s: the shorter window has %d left, want 6", key, left)
		}
	}
}
