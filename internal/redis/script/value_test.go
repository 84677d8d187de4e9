package script_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// ask plays one call on the server's own clock.
func (s *server) ask(t rapid.TB, a engine.Ask) answer {
	t.Helper()
	return s.play(t, []call{{ask: a}})[0]
}

// TestSizes holds the length of the values to what is promised.
func TestSizes(t *testing.T) {
	s := start(t)
	for i, c := range []struct{ units, asks, length int64 }{
		limit.TokenBucket:   {units: 1, asks: 100, length: 34},
		limit.FixedWindow:   {units: 1, asks: 100, length: 37},
		limit.SlidingWindow: {units: 1, asks: 100, length: 30},
		limit.SlidingLog:    {units: 1, asks: 100, length: 54 + 8*100},
		limit.Concurrency:   {units: 1, asks: 50, length: 23 + 16*50},
	} {
		a := askOf(specs[i], "10.0.0.1", c.units)
		name := nameOf(a.Policy, "10.0.0.1")
		for n := range c.asks {
			a.Holder = uint64(n) + 1
			if got := s.ask(t, a); got.grant.Granted != c.units {
				t.Fatalf("%s, ask %d: %+v", script.All()[i].Name, n, got.grant)
			}
		}
		if got := s.Do("STRLEN", name).(int64); got != c.length {
			t.Errorf("%s: a value of %d bytes, want %d", script.All()[i].Name, got, c.length)
		}
		t.Logf("%-15s value %3d bytes, with its key in memory %d bytes", script.All()[i].Name, c.length, s.Do("MEMORY", "USAGE", name))
	}
	a := askOf(specs[limit.Concurrency], "k", 1)
	a.Op, a.Seq = engine.Hold, 1 // what is remembered of a holder beside its slots
	s.ask(t, a)
	if got, want := s.Do("STRLEN", nameOf(a.Policy, "k")).(int64), int64(23+16+20); got != want {
		t.Errorf("one holder: %d bytes, want %d", got, want)
	}
}

// TestForeignValues: a value of another layout, of another algorithm or of nobody known
// is never written over, whatever is asked; an empty one is nobody's.
func TestForeignValues(t *testing.T) {
	s := start(t)
	for i, spec := range specs {
		for name, value := range map[string]string{
			"layout 2": string(rune(0x20+i)) + strings.Repeat("\x01", 60), "newest": "\x7f" + strings.Repeat("\x7f", 60),
			"short": "\x01", "another's": string(rune(0x10+(i+1)%5)) + strings.Repeat("\x01", 2000),
		} {
			a := askOf(spec, name, 3)
			report := askOf(spec, name, 0)
			report.Op, report.Want.Unused, report.Want.Overdrawn = engine.Release, 1, 1
			key := nameOf(a.Policy, name)
			s.Do("SET", key, value)
			for _, ask := range []engine.Ask{a, report} {
				for _, mode := range []script.Mode{script.Acquire, script.Fit} {
					reply := fatal.Get(s.client.Do(ctx, (&call{ask: ask, mode: mode}).args()...).Text())(t)
					if g, fits, err := script.Parse(reply, &ask, mode); !errors.Is(err, script.ErrForeign) || fits || g.Status != lease.Unavailable {
						t.Errorf("%s, %s: %+v, %v, %v; want unavailable", script.All()[i].Name, name, g, fits, err)
					}
				}
			}
			if s.Do("GET", key) != value || s.Do("PTTL", key) != int64(-1) {
				t.Errorf("%s, %s: it was changed", script.All()[i].Name, name)
			}
			// What another layout keeps of the same counter is beside it.
			other := askOf(spec, name+" beside", 3)
			beside := strings.TrimSuffix(nameOf(other.Policy, name+" beside"), ".1") + ".2"
			s.Do("SET", beside, value)
			if got := s.ask(t, other); got.grant.Granted != 3 || s.Do("GET", beside) != value {
				t.Errorf("%s, %s: beside it %+v", script.All()[i].Name, name, got)
			}
		}
		empty := askOf(spec, "empty", 3)
		s.Do("SET", nameOf(empty.Policy, "empty"), "")
		if got := s.ask(t, empty); got.grant.Granted != 3 || got.ttl <= 0 {
			t.Errorf("%s, empty: %+v, want that of a new counter", script.All()[i].Name, got)
		}
	}
}

// TestFullMemory: a server that may not take more memory goes on counting what it
// counts, and answers "full" for new keys.
func TestFullMemory(t *testing.T) {
	s := start(t, "--maxmemory-policy", "noeviction")
	play := func(key string, spec limit.Spec, holder uint64, units int64) answer {
		if spec.Algorithm != limit.Concurrency {
			spec.Period = 300 * limit.Day // none ends, and no token comes in, within the test
		}
		a := askOf(spec, key, units)
		a.Holder = holder
		return s.ask(t, a)
	}
	for _, spec := range specs {
		play("old", spec, 1, 1)
	}
	long := limit.Spec{Algorithm: limit.SlidingLog, Count: 1000, Period: limit.Hour}
	for range 300 {
		play("long", long, 1, 1)
	}
	s.Do("CONFIG", "SET", "maxmemory", "1")
	for i, spec := range specs {
		name := script.All()[i].Name
		for n := range int64(5) {
			got := play("old", spec, uint64(n)+2, 1)
			if want := got.grant.Limit - n - 2; got.grant.Granted != 1 || got.grant.Remaining != want || got.ttl <= 0 {
				t.Fatalf("%s, ask %d with full memory: %+v, want a unit and %d left", name, n, got, want)
			}
		}
		if got := play("new", spec, 1, 1); got.grant.Status != lease.Unavailable || got.ttl != -2 {
			t.Errorf("%s, a new key with full memory: %+v, want unavailable and no key", name, got)
		}
	}
	for n := range int64(50) {
		if got := play("long", long, 1, 1); got.grant.Granted != 1 || got.grant.Remaining != 1000-301-n {
			t.Fatalf("a long log with full memory: %+v", got)
		}
		if got := play("long", long, 1, 5000); got.grant.Status != lease.Denied {
			t.Fatalf("a long log with full memory: %+v", got)
		}
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	if got := play("new", specs[0], 1, 1); got.grant.Granted != 1 {
		t.Errorf("memory is there again: %+v", got)
	}
}
