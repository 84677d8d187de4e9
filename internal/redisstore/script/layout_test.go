package script

import "testing"

// The keys of the first layout are those of the releases before layouts had names.
func TestLayoutIsPartOfTheKey(t *testing.T) {
	for version, want := range map[int]string{1: "weir:{a:b}0.10", 2: "weir:{a:b}0.10.v2", 15: "weir:{a:b}0.10.v15"} {
		if got := string(appendLayout([]byte("weir:{a:b}0.10"), version)); got != want {
			t.Errorf("layout %d: %s, want %s", version, got, want)
		}
	}
}
