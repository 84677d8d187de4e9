package api

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
)

// One caller gets its burst and then its rate, and no other caller waits for it.
func TestRate(t *testing.T) {
	l, now := newLimits(), time.Unix(1_800_000_000, 0)
	count := func(when, who string, want int) {
		n := 0
		for range 10_000 {
			leave, p := l.enter(access.Caller{Name: who}, false, now)
			if p == nil {
				leave()
				n++
			} else if wait := p.GetHeaders().Get("Retry-After"); p.Status != 429 || p.Code != v1.CodeTooMany || wait != "1" || !strings.Contains(p.Detail, who) {
				t.Fatalf("%+v, Retry-After %s", p, wait)
			}
		}
		if n != want {
			t.Errorf("%s: %d calls of %s, want %d", when, n, who, want)
		}
	}
	count("at once", "ann", burst)
	count("at once", "bob", burst)
	now = now.Add(time.Second)
	count("after a second", "ann", perSecond)
}

// Streams and calls in flight are bounded, for one caller and for all of a role, and make room when they end.
func TestInFlight(t *testing.T) {
	l, now := newLimits(), time.Unix(1_800_000_000, 0)
	var leave []func()
	fill := func(what string, role access.Role, stream bool, callers, each, want int) {
		n := 0
		for who := range callers {
			for range each {
				if one, p := l.enter(access.Caller{Name: fmt.Sprint(role, who), Role: role}, stream, now); p == nil {
					leave, n = append(leave, one), n+1
				} else if wait, err := strconv.Atoi(p.GetHeaders().Get("Retry-After")); err != nil || wait < 1 {
					t.Fatalf("%+v", p)
				}
			}
		}
		if n != want {
			t.Errorf("%d %s, want %d", n, what, want)
		}
	}
	for range 2 {
		fill("streams of one caller", access.Viewer, true, 1, 20, maxStreamsEach)
		fill("more streams of all viewers", access.Viewer, true, 20, 10, maxStreams-maxStreamsEach)
		fill("calls of one caller, beside streams", access.Viewer, false, 1, 20, maxCallsEach)
		fill("more calls of all viewers", access.Viewer, false, 20, 10, maxCalls-maxCallsEach)
		fill("calls of admins, beside all that viewers may have", access.Admin, false, 20, 10, maxCalls)
		for _, one := range leave {
			one()
		}
		leave = nil
		now = now.Add(time.Minute)
	}
}
