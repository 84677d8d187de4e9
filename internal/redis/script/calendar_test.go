package script_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestClocksApart: the script chooses the window by the clock of the server, and does not where that is more than a
// window away from the clock of the caller.
func TestClocksApart(t *testing.T) {
	s := start(t)
	for _, c := range calendars(t) {
		p := policy(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: c.Per.Period(), Calendar: c}, lease.Leased, 100)
		key := newKey()
		name := string(script.AppendKey(nil, p, key))
		at := limit.Micros(time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC).UnixMicro())
		begins := c.Windows.Around(at)
		ask := engine.Ask{Policy: p, Key: key, Want: lease.Want{Need: 3, Waiting: 3, Want: 3, Fresh: true}}
		var w twin
		for _, now := range []limit.Micros{begins[0], begins[1] - 1, begins[1], begins[2] - 1, begins[2], begins[3] - 1, begins[0], begins[0] - 1, begins[3]} {
			args := script.AppendArgs(nil, &ask, script.Acquire, at) // by a caller whose clock shows at
			for i := range 7 {
				args[i] = byte(now >> (8 * i))
			}
			text := fatal.Get(s.client.Do(ctx, "EVALSHA", script.For(p.Limit).SHA, 1, name, string(args)).Text())(t)
			g, _, err := script.Parse(text, &ask, script.Acquire)
			if now < begins[0] || now >= begins[3] {
				if g.Status != lease.Unavailable || err == nil || errors.Is(err, script.ErrForeign) {
					t.Errorf("%s in %s, %d µs from the caller's clock: %+v, %v", c.Per, c.Zone, now-at, g, err)
				}
				continue
			}
			want, _ := w.apply(&call{ask: ask, now: now})
			if g != want || err != nil {
				t.Errorf("%s in %s, %d µs from the caller's clock:\n got %+v, %v\nwant %+v", c.Per, c.Zone, now-at, g, err, want)
			}
		}
	}
}

// By the server's own clock the end of the day is the one that the zone's clock has.
func TestCalendarByTheServersClock(t *testing.T) {
	s := start(t)
	c := calendars(t)[0]
	p := policy(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: c.Per.Period(), Calendar: c}, lease.Leased, 100)
	ask := engine.Ask{Policy: p, Key: newKey(), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	before := limit.Micros(time.Now().UnixMicro())
	got := s.play(t, []call{{ask: ask}})[0].grant
	after := limit.Micros(time.Now().UnixMicro())
	begins := c.Windows.Around(before)
	if after >= begins[2] {
		t.Skip("midnight passed")
	}
	if id := p.Limit.PeriodID(begins[1]); got.Granted != 1 || got.Lease != id || got.Reset > lease.CeilMillis(begins[2]-before) || got.Reset < lease.CeilMillis(begins[2]-after) {
		t.Errorf("%+v, want lease %d and the end of the day in %d ms", got, id, (begins[2]-after)/limit.Millisecond)
	}
}
