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
	enter := func(who string) (ok bool) {
		leave, p := l.enter(access.Caller{Name: who}, false, now)
		if p == nil {
			leave()
		} else if wait := p.GetHeaders().Get("Retry-After"); p.Status != 429 || p.Code != v1.CodeTooMany || wait != "1" || !strings.Contains(p.Detail, who) {
			t.Fatalf("%+v, Retry-After %s", p, wait)
		}
		return p == nil
	}
	count := func(who string) (n int) {
		for range 10_000 {
			if enter(who) {
				n++
			}
		}
		return n
	}
	if n := count("ann"); n != burst {
		t.Errorf("at once: %d calls", n)
	}
	if n := count("bob"); n != burst {
		t.Errorf("of another caller: %d calls", n)
	}
	if now = now.Add(time.Second); !enter("ann") {
		t.Error("after a second: none")
	}
	if n := count("ann"); n != perSecond-1 {
		t.Errorf("after a second: %d calls", n+1)
	}
}

// Streams and calls in flight are bounded, for one caller and for all of a role, and make room when they end.
func TestInFlight(t *testing.T) {
	l, now := newLimits(), time.Unix(1_800_000_000, 0)
	var leave []func()
	fill := func(role access.Role, stream bool, callers, each int) (n int) {
		for who := range callers {
			for range each {
				if one, p := l.enter(access.Caller{Name: fmt.Sprint(role, who), Role: role}, stream, now); p == nil {
					leave, n = append(leave, one), n+1
				} else if wait, err := strconv.Atoi(p.GetHeaders().Get("Retry-After")); err != nil || wait < 1 {
					t.Fatalf("%+v", p)
				}
			}
		}
		return n
	}
	for range 2 {
		if n := fill(access.Viewer, true, 1, 20); n != maxStreamsEach {
			t.Errorf("%d streams of one caller", n)
		}
		if n := fill(access.Viewer, true, 20, 10); n != maxStreams-maxStreamsEach {
			t.Errorf("%d more streams of all viewers", n)
		}
		if n := fill(access.Viewer, false, 1, 20); n != maxCallsEach {
			t.Errorf("%d calls of one caller, beside streams", n)
		}
		if n := fill(access.Viewer, false, 20, 10); n != maxCalls-maxCallsEach {
			t.Errorf("%d more calls of all viewers", n)
		}
		if n := fill(access.Admin, false, 20, 10); n != maxCalls {
			t.Errorf("%d calls of admins, beside all that viewers may have", n)
		}
		for _, one := range leave {
			one()
		}
		leave = nil
		now = now.Add(time.Minute)
	}
}
