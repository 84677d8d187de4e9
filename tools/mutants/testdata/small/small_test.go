package small

import "testing"

func TestSize(t *testing.T) {
	for n, want := range map[int]string{-20: "small", 9: "small", 20: "large"} {
		if got := Size("a", n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
	if Size("none", 0) != "none!" {
		t.Error("none has a size")
	}
}
