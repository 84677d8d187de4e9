package lease

import "testing"

// A unit of the holder's own share goes back there when another rule denies the
// request that took it.
func TestUntakeLocalShare(t *testing.T) {
	var s Slot
	if !s.TakeLocal(1000, 2000, 5, 2) {
		t.Fatal("2 of 5 units were refused")
	}
	s.Untake(Taken{Overdrawn: 2, Local: true})
	if !s.TakeLocal(1000, 2000, 5, 5) || s.TakeLocal(1000, 2000, 5, 1) || s.Overdrawn != 5 {
		t.Errorf("the share was not whole again: overdrawn %d", s.Overdrawn)
	}
}
