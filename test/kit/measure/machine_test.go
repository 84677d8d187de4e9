package measure

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	//          user nice system idle iowait irq softirq steal guest guest_nice
	got, err := parseStat("cpu  100 10 50 9999 7 1 2 3 40 5\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if want := 1660 * time.Millisecond; err != nil || got != want {
		t.Errorf("parseStat = %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q) = %v, want an error", bad, got)
		}
	}
}

func TestTheMachineIsBusyAtLeastWithUs(t *testing.T) {
	busy, err := Busy()
	if err != nil || busy <= 0 {
		t.Errorf("Busy = %v, %v", busy, err)
	}
	if Load() == "" {
		t.Error("no load average")
	}
}
