package compose

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// The limit of the rule `cut`, and the share of it that each region has.
const (
	cutWindow = 10 * time.Second
	cutLimit  = 40
	cutShare  = 20
	// cutNoticed is more than both sides need to notice that a region is cut off: 3 s.
	cutNoticed = 6 * time.Second
	// cutWindows is how many windows are looked at until one shows what should be. A busy
	// machine spoils some.
	cutWindows = 12
)

// A region that is cut off admits its share, the other one the rest, and together at most the
// limit. Back again it gets what the other one does not demand, and the rules that it missed.
func disconnected(t *testing.T) {
	network, prefix := between(t)
	var connect []func()
	for _, m := range usBetween {
		id := container(t, m.service)
		docker(t, "network", "disconnect", network, id)
		connect = append(connect, func() { docker(t, "network", "connect", "--ip", prefix+m.address, network, id) })
	}
	time.Sleep(cutNoticed)
	apply(t, rules(10003), "marker", 10003, eu)
	awaitWindow(t, "each region admits its share", func(eu, us int) bool {
		if eu > cutShare || us > cutShare {
			t.Errorf("cut off, eu admitted %d and us %d, of a share of %d each", eu, us, cutShare)
		}
		return eu == cutShare && us == cutShare
	}, eu, us)
	for _, back := range connect {
		back()
	}
	apply(t, rules(10004), "marker", 10004, both)
	awaitWindow(t, "us gets what eu leaves", func(_, us int) bool {
		if us > cutLimit {
			t.Errorf("us admitted %d of %d", us, cutLimit)
		}
		return us > cutShare
	}, nil, us)
	awaitWindow(t, "both share the limit", func(eu, us int) bool {
		if eu+us > cutLimit {
			t.Errorf("eu admitted %d and us %d, together more than %d", eu, us, cutLimit)
		}
		return eu > 0 && us > 0 && eu+us >= least98(cutLimit)
	}, eu, us)
}

// awaitWindow asks the PoPs of two regions through one window after the other until ok accepts
// what they admitted in one.
func awaitWindow(t *testing.T, what string, ok func(eu, us int) bool, eu, us []pop) {
	t.Helper()
	var seen []string
	for range cutWindows {
		a, b, clean := oneWindow(t, eu, us)
		seen = append(seen, fmt.Sprintf("%d+%d", a, b))
		if !clean {
			seen[len(seen)-1] += " (late)"
			continue
		}
		if ok(a, b) {
			t.Logf("%s: %v", what, seen)
			return
		}
	}
	t.Errorf("%s: not in %d windows: %v", what, cutWindows, seen)
}

// oneWindow asks from a second after a window has begun until two seconds before its end. It is
// clean if the last answer came before the end, so that nothing counts in another window.
func oneWindow(t *testing.T, eu, us []pop) (inEU, inUS int, clean bool) {
	t.Helper()
	begin := time.Now().Truncate(cutWindow).Add(cutWindow)
	end := begin.Add(cutWindow)
	time.Sleep(time.Until(begin.Add(time.Second)))
	if time.Now().After(begin.Add(cutWindow / 2)) {
		return 0, 0, false
	}
	for i := 0; time.Now().Before(end.Add(-2 * time.Second)); i++ {
		for _, region := range []struct {
			pops     []pop
			admitted *int
		}{{eu, &inEU}, {us, &inUS}} {
			if len(region.pops) == 0 {
				continue
			}
			if status, _ := get(t, region.pops[i%len(region.pops)], "/cut/"+run); status == http.StatusOK {
				*region.admitted++
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return inEU, inUS, time.Now().Before(end)
}
