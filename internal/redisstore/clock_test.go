package redisstore

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/clocks"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A master with a wrong clock decides, and a line of the log names it; the gauge follows when
// the clock is set.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	clock.Set(-time.Hour)
	server := redistest.StartWith(t, clock.Option())
	var log notes
	s := start(t, Config{Addrs: []string{server.Addr}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ahead := func(want time.Duration) {
		t.Helper()
		eventually(t, func() string {
			// A slow machine makes the measurement uncertain by half of the time that it takes.
			if got := s.clockAhead(); !(math.Abs(got-want.Seconds()) < s.config.Timeout.Seconds()/2) {
				return fmt.Sprintf("ahead by %v s, want %v", got, want)
			}
			return ""
		})
	}
	ahead(-time.Hour)
	p := fixedPolicy(t, "r", 5)
	if g := acquire(t, s, plenty, one(p, "k"))[0]; g.Granted != 1 {
		t.Errorf("%+v", g)
	}
	clock.Set(time.Hour)
	ahead(time.Hour)
	clock.Set(0)
	ahead(0)
	logged := log.String()
	if n := strings.Count(logged, "level=WARN"); n != 1 || !strings.Contains(logged, "address="+server.Addr) || !strings.Contains(logged, "NTP") {
		t.Errorf("want one warning, with the address and what to do:\n%s", logged)
	}
	if !strings.Contains(logged, "agree again") {
		t.Errorf("that the clock is right again is not logged:\n%s", logged)
	}
}

// The gauge is of the master whose clock is furthest off, of those that serve and are known.
func TestFurthestClock(t *testing.T) {
	t.Parallel()
	s := &Store{nodes: map[string]*node{}}
	if !math.IsNaN(s.clockAhead()) {
		t.Errorf("ahead by %v without a master", s.clockAhead())
	}
	for addr, c := range map[string]struct {
		ahead         time.Duration
		known, serves bool
	}{
		"a:1": {known: false, serves: true},
		"a:2": {ahead: 10 * time.Second, known: true, serves: true},
		"a:3": {ahead: -time.Minute, known: true, serves: true},
		"a:4": {ahead: time.Hour, known: true, serves: false},
		"a:5": {known: false, serves: true},
	} {
		n := &node{addr: addr}
		n.serves.Store(c.serves)
		if c.known {
			n.clock.Note(clocks.Offset{Least: c.ahead, Most: c.ahead}, slog.New(slog.DiscardHandler), "a Redis master", addr, "")
		}
		s.nodes[addr] = n
	}
	if got := s.clockAhead(); got != -60 {
		t.Errorf("ahead by %v s, want -60", got)
	}
}
