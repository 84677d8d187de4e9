package sim

import "testing"

// TestFaultsAreCaught breaks one thing at a time and wants a check to see it: a
// check that nothing can fail proves nothing.
func TestFaultsAreCaught(t *testing.T) {
	for _, f := range []Fault{GrantsTwice, AppliesTwice, MergesLots, ParksTakes, OutlivesParent, GivesBackTwice, SpendsEarly, ChargesTwice, ForgetsDebts} {
		t.Run(f.String(), func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				if err := play(t, seed, f); err != nil {
					t.Logf("caught by run %d: %v", seed, err)
					return
				}
			}
			t.Errorf("nobody noticed a simulator that %s", f)
		})
	}
}
