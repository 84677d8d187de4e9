package membudget

import "testing"

// A caller may have a quarter, all together the whole; what was given back is forgotten.
func TestInFlight(t *testing.T) {
	f := NewInFlight[string](400)
	for _, caller := range []string{"a", "b", "c", "d"} {
		if !f.Take(caller, 60) || !f.Take(caller, 40) || f.Take(caller, 1) {
			t.Fatalf("%s does not get a quarter, or more", caller)
		}
	}
	if f.Take("e", 1) {
		t.Error("more than there is")
	}
	f.Give("a", 60)
	if !f.Take("e", 60) || f.Take("a", 1) {
		t.Error("what a caller gave back is not the next one's")
	}
	for caller, has := range map[string]int64{"a": 40, "b": 100, "c": 100, "d": 100, "e": 60} {
		f.Give(caller, has)
	}
	if f.all != 0 || len(f.of) != 0 {
		t.Errorf("%d bytes of %v are left", f.all, f.of)
	}
	if !NewInFlight[int](0).Take(1, 1<<40) {
		t.Error("a bound where there is none")
	}
}
