package shed

import "testing"

// after is the ratio after so many ms of ticks at a utilization, from a level on.
func after(p Profile, level, millis, utilization int64) int64 {
	for ; millis > 0; millis -= 100 {
		level = p.Next(level, min(millis, 100), utilization)
	}
	return p.Ratio(level)
}

// A profile in time: how much is rejected after so long at a utilization.
func TestProfile(t *testing.T) {
	top := func(p Profile) int64 { return -p.Lowest() * p.span().rise / p.span().delay }
	idle := top(Slow)
	for range 1480 {
		idle = Slow.Next(idle, 100, 0)
	}
	for _, c := range []struct {
		name        string
		p           Profile
		level       int64 // at the beginning
		millis      int64
		utilization int64
		want        int64
	}{
		{"slow, full: nothing for 28 s", Slow, Slow.Lowest(), 28_000, 1000, 0},
		{"slow, full: half after 88 s", Slow, Slow.Lowest(), 88_000, 1000, 500_000},
		{"slow, full: not all after 147.9 s", Slow, Slow.Lowest(), 147_900, 1000, 999_166},
		{"slow, full: all after 148 s", Slow, Slow.Lowest(), 148_000, 1000, Million},
		{"slow, full for a day: no more than all", Slow, Slow.Lowest(), 86_400_000, 1000, Million},
		{"slow, idle: half after 60 s", Slow, top(Slow), 60_000, 0, 500_000},
		{"slow, idle: nothing after 120 s", Slow, top(Slow), 120_000, 0, 0},
		{"slow, half idle: nothing after 240 s", Slow, top(Slow), 240_000, 350, 0},
		{"slow, idle for 148 s: the delay again", Slow, idle, 28_000, 1000, 0},
		{"slow, at 0.9: half as fast", Slow, 0, 120_000, 900, 500_000},
		{"fast, full: nothing for 2 s", Fast, Fast.Lowest(), 2_000, 1000, 0},
		{"fast, full: all after 10 s", Fast, Fast.Lowest(), 10_000, 1000, Million},
		{"fast, idle: nothing after 8 s", Fast, top(Fast), 8_000, 0, 0},
		{"between 0.7 and 0.8: as it was", Slow, 60_000_000, 3_600_000, 750, 500_000},
		{"at 0.7: as it was", Fast, 4_000_000, 3_600_000, 700, 500_000},
		{"at 0.8: as it was", Fast, 4_000_000, 3_600_000, 800, 500_000},
	} {
		if got := after(c.p, c.level, c.millis, c.utilization); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestUtilization(t *testing.T) {
	for _, c := range []struct {
		name                        string
		inFlight, capacity, success int64
		sums                        Sums
		want                        int64
	}{
		{"nothing", 0, 200, 0, Sums{}, 0},
		{"half full", 100, 200, 0, Sums{}, 500},
		{"more than full", 300, 200, 0, Sums{}, 1000},
		{"fewer than none", -3, 200, 0, Sums{}, 0},
		{"no capacity", 1, 0, 0, Sums{}, 1000},
		{"load is more", 100, 200, 0, Sums{Load: 4500, Loads: 5, Count: 5}, 900},
		{"load is less", 100, 200, 0, Sums{Load: 500, Loads: 5, Count: 5}, 500},
		{"success as asked for", 0, 200, 95, Sums{Failed: 5, Count: 100}, 0},
		{"better than that", 0, 200, 50, Sums{Count: 100}, 0},
		{"a little less", 0, 200, 95, Sums{Failed: 6, Count: 100}, 803},
		{"half of it", 0, 200, 80, Sums{Failed: 60, Count: 100}, 900},
		{"all failed", 0, 200, 95, Sums{Failed: 100, Count: 100}, 1000},
		{"success is not asked for", 0, 200, 0, Sums{Failed: 100, Count: 100}, 0},
		{"few responses", 0, 200, 95, Sums{Load: 4000, Loads: 4, Failed: 4, Count: 4}, 0},
	} {
		if got := Utilization(c.inFlight, c.capacity, c.success, c.sums); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestClassCapacity(t *testing.T) {
	for _, c := range []struct{ capacity, percent, want int64 }{
		{200, 100, 200}, {200, 80, 160}, {1, 1, 1}, {1, 100, 1}, {3, 50, 2}, {1_000_000, 1, 10_000}, {99, 1, 1}, {101, 1, 2},
	} {
		if got := ClassCapacity(c.capacity, c.percent); got != c.want {
			t.Errorf("%d %% of %d: %d, want %d", c.percent, c.capacity, got, c.want)
		}
	}
}
