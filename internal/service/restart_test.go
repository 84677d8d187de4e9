package service_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// A region restarts without its counters while PoPs hold leases. Units that come back to the new process were
// granted by the one before, and no request has used them. So all processes together admit at most one limit each.
func TestGiveBacksSurviveARestart(t *testing.T) {
	const limit, most = 100, 3
	admittedMore := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRegion(t)
		var held []wire.Grant // leases of which no unit is used
		admitted, lives := int64(0), int64(1)
		for range 40 {
			i := random.IntN(len(held) + 1)
			switch {
			case random.IntN(20) == 0 && lives < most:
				seq := r.seq
				r = newRegion(t)
				r.seq = seq
				lives++
			case i < len(held) && random.IntN(2) == 0:
				admitted += held[i].Granted
				held = append(held[:i], held[i+1:]...)
			case i < len(held):
				g := held[i]
				held = append(held[:i], held[i+1:]...)
				r.grants(wire.Want{Rule: "all", Shape: g.Shape, Want: lease.Want{Unused: g.Granted, Lease: g.Lease}})
			default:
				n := 1 + random.Int64N(limit)
				if g := r.grants(want("all", "", n))[0]; g.Granted > 0 {
					held = append(held, g)
				}
			}
		}
		for _, g := range held {
			admitted += g.Granted
		}
		if admitted > limit*lives {
			t.Errorf("seed %d: %d admitted of %d in %d lives of the region", seed, admitted, limit, lives)
		}
		if admitted > limit {
			admittedMore++
		}
	}
	if admittedMore < 25 {
		t.Errorf("only %d of 100 runs admitted more than one limit: the others prove nothing", admittedMore)
	}
}
