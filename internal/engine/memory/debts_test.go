package memory

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// charged reports whether a debt is charged that is reported now.
func (d *debts) charged(at limit.Micros, counter, name uint64) bool {
	return !d.note(at, debt{counter, name})
}

// A debt is remembered for ten minutes at least after it was reported last, and is reported anew
// after twenty.
func TestDebtsAreRemembered(t *testing.T) {
	var d debts
	now := limit.Day
	if !d.charged(now, 1, 7) || d.charged(now, 1, 7) || !d.charged(now, 2, 7) || !d.charged(now, 1, 8) {
		t.Error("each debt of each counter is charged once")
	}
	for range 30 {
		if now += debtMemory - 1; d.charged(now, 1, 7) {
			t.Fatal("charged a second time, though it is reported again and again")
		}
	}
	now += 2 * debtMemory
	d.charged(now, 3, 1)
	now += debtMemory
	if d.charged(now, 3, 1) || !d.charged(now, 1, 7) {
		t.Error("a debt that nobody reported for half an hour is remembered, or a younger one is not")
	}
	if d.charged(now-limit.Hour, 3, 1) {
		t.Error("a clock that steps back makes it forget at once")
	}
}

// However many debts there are, memory is bounded, and the newest are remembered.
func TestDebtsAreBounded(t *testing.T) {
	for bytes, most := range map[int64]int{1: leastDebts, 16 << 20: 16 << 10, 1 << 30: mostDebts} {
		d := &New(Config{MaxKeys: 1, MaxBytes: bytes}).debts
		for n := range 3 * most {
			if !d.charged(limit.Day, 1, uint64(n+1)) || len(d.now)+len(d.before) > 2*most {
				t.Fatalf("%d bytes: debt %d of %d and %d", bytes, n, len(d.now), len(d.before))
			}
		}
		for n := 3*most - most/2; n < 3*most; n++ {
			if d.charged(limit.Day, 1, uint64(n+1)) {
				t.Fatalf("%d bytes: debt %d is forgotten", bytes, n)
			}
		}
	}
}
