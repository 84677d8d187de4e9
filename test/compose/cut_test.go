package compose

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// The limit of the rule `cut`, and the share of it that each region has.
const (
	cutWindow = 10 * time.Second
	cutLimit  = 40
	cutShare  = 20
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
	awaitSilence(t, true)
	apply(t, rules(10003), "marker", 10003, eu)
	awaitWindow(t, "each region admits its share", func(eu, us int) bool {
		return eu == cutShare && us == cutShare
	}, func(eu, us int) bool { return eu <= cutShare && us <= cutShare }, eu, us)
	for _, back := range connect {
		back()
	}
	awaitSilence(t, false)
	apply(t, rules(10004), "marker", 10004, both)
	within := func(eu, us int) bool { return eu+us <= cutLimit }
	awaitWindow(t, "us gets what eu leaves", func(_, us int) bool { return us > cutShare }, within, nil, us)
	awaitWindow(t, "both share the limit", func(eu, us int) bool {
		return eu > 0 && us > 0 && eu+us >= least98(cutLimit)
	}, within, eu, us)
}

// awaitSilence waits until both sides have noticed that us is cut off, or is no longer: what holds
// for a window, holds for those that begin then.
func awaitSilence(t *testing.T, silent bool) {
	t.Helper()
	for _, side := range []struct {
		query string
		value float64
	}{
		{`sum(weir_reserve_in_use{region="us"})`, 2}, // by replica
		{`sum(weir_region_withheld{region="us"} > bool 0)`, 1},
	} {
		if !silent {
			side.value = 0
		}
		proc.Await(t, patience, fmt.Sprint(side.query, " is ", side.value), func() string {
			if got, err := prometheus(t, side.query); err != nil || got != side.value {
				return fmt.Sprint(got, err)
			}
			return ""
		})
	}
}

// awaitWindow asks the PoPs of two regions through one window after the other until ok accepts
// what they admitted in one. In each of them it must be within what both may admit. A PoP that
// a busy machine kept from its region decided alone, by on_failure, which promises no more than
// a part of the limit: such a window shows nothing.
func awaitWindow(t *testing.T, what string, ok, within func(eu, us int) bool, eu, us []pop) {
	t.Helper()
	before := decidedAlone(t)
	var seen []string
	for range cutWindows {
		a, b, clean := oneWindow(t, eu, us)
		seen = append(seen, fmt.Sprintf("%d+%d", a, b))
		switch {
		case !clean:
			seen[len(seen)-1] += " (late)"
		case !within(a, b):
			now := decidedAlone(t)
			if now == before {
				t.Fatalf("%s: a window had more than it may: %v", what, seen)
			}
			seen[len(seen)-1] += fmt.Sprintf(" (%v alone)", now-before)
			before = now
		case ok(a, b):
			t.Logf("%s: %v", what, seen)
			return
		}
	}
	t.Errorf("%s: not in %d windows: %v", what, cutWindows, seen)
}

// decidedAlone is how many requests of the rule `cut` PoPs have decided by on_failure up to now.
func decidedAlone(t *testing.T) (n float64) {
	t.Helper()
	// PoPs count at ticks, several in a second, and Prometheus asks every five seconds.
	counted := time.Now().Add(2 * time.Second).Unix()
	proc.Await(t, patience, "Prometheus has asked all PoPs again", func() string {
		query := fmt.Sprintf(`count((timestamp(up{job="weir-pop"}) > %d) and up{job="weir-pop"} == 1)`, counted)
		if asked, err := prometheus(t, query); err != nil || int(asked) != len(both) {
			return fmt.Sprint(asked, " PoPs, ", err)
		}
		var err error
		if n, err = prometheus(t, `sum(weir_decisions{rule="cut", reason="local_share"}) or vector(0)`); err != nil {
			return err.Error()
		}
		return ""
	})
	return n
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
