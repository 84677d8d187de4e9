package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// TestScale is the run of make sim with fewer PoPs and less time: three tiers, of which the
// uppermost divides limits among regions, and everything goes wrong that may.
func TestScale(t *testing.T) {
	seeds, lasts := uint64(2), 70*limit.Second // a window ends
	if full() {
		seeds, lasts = 20, 10*limit.Minute
	}
	for seed := range seeds {
		for _, a := range []limit.Algorithm{limit.TokenBucket, limit.FixedWindow} {
			if err := playScale(t, seed, a, lasts, None); err != nil {
				t.Errorf("%s: %v", a.String(), err)
			}
		}
	}
}

// TestScaleCatches plants the faults of a tier, of a message and of a PoP in such a run.
func TestScaleCatches(t *testing.T) {
	catches(t, 20, func(run uint64, f Fault) error {
		return playScale(t, run/2, []limit.Algorithm{limit.FixedWindow, limit.TokenBucket}[run%2], 70*limit.Second, f)
	}, GrantsTwice, AppliesTwice, OutlivesParent, GivesBackTwice, MergesLots, ParksTakes, ChargesTwice, ForgetsDebts)
}

func playScale(t *testing.T, seed uint64, a limit.Algorithm, lasts limit.Micros, fault Fault) (err error) {
	s := Scale{Seed: seed, Algorithm: a, PoPs: 60, Regions: 4, Rate: 600, Lasts: lasts, Fault: fault}
	bubble(t, func(*testing.T) {
		w, _ := s.Start()
		defer w.Close()
		err = w.Run(s.Lasts)
	})
	return err
}
