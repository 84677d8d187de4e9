package service_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// Units come back only to the process that has answered their holder: whatever presents another
// epoch may be a copy of a call that the process before has applied. The rest of it is decided.
func TestUnitsComeBackToTheProcessThatAnswered(t *testing.T) {
	r := newRegion(t)
	had := r.grants(want("all", "k", 60))[0]
	back := wire.Want{Rule: "all", Key: []byte("k"), Shape: had.Shape, Want: lease.Want{Unused: 20, Lease: had.Lease, Need: 1, Waiting: 1, Want: 1}}
	for _, c := range []struct {
		epoch uint64
		left  int64
	}{{0, 39}, {r.epoch + 1, 38}, {r.store.Epoch(), 57}} {
		q := r.call(back)
		q.Epoch = c.epoch
		if out, refused := r.post(q); out == nil || out.Grants[0].Granted != 1 || out.Grants[0].Remaining != c.left {
			t.Errorf("epoch %d: %+v %s, want one unit and %d left", c.epoch, out, refused, c.left)
		}
	}
}
