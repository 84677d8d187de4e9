package script

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// full is the reply, of this one byte, of a server that has no memory for a new key.
const full = 2

// foreign is the reply, of this one byte, where the value of the key is none of ours.
const foreign = 3

// stale is the reply, of this one byte, where the windows of a calendar that came with an ask are not those of now.
const stale = 4

// errStale means that the clocks of this program and of the server are more than a window of a calendar apart.
var errStale = errors.New("the clocks of this machine and of the Redis server differ by more than a calendar window: correct the wrong clock")

// ErrForeign means that somebody else's value stands under the name of a counter.
var ErrForeign = errors.New("the key has a value that Weir has not written; Weir does not change it: find the program that writes it, or delete the key")

// replyFields are what a script answers otherwise. Durations count from the now of
// the script.
var replyFields = fields{
	{name: "fits", size: 1}, // 1: the need fitted
	{name: "out", size: 1},  // 1: units are out on lease; slots: any are held
	{name: "granted", size: 4}, {name: "remaining", size: 4},
	{name: "period", size: 7}, // charged; slots: 0 if the statement is too old
	{name: "starts", size: 7}, {name: "ttl", size: 7}, {name: "retry", size: 7}, {name: "reset", size: 7},
	{name: "blocked", size: 1}, // a limit.Block
}

var replySize = replyFields.size()

// Parse reads the reply to an ask that was made in mode m. With mode Fit,
// fits means that the need fitted and that nothing was granted; with Acquire, that
// the grant is OK. Where there was no room to
// count, or the statement of a holder was too old, the grant is Unavailable and
// nothing fits. The error is [ErrForeign], errStale, or what is wrong with a reply that no
// script makes.
func Parse(reply string, a *engine.Ask, m Mode) (g lease.Grant, fits bool, err error) {
	if reply == string(rune(full)) {
		return lease.Grant{Status: lease.Unavailable}, false, nil
	}
	if reply == string(rune(foreign)) {
		return lease.Grant{Status: lease.Unavailable}, false, ErrForeign
	}
	if reply == string(rune(stale)) {
		return lease.Grant{Status: lease.Unavailable}, false, errStale
	}
	l := a.Policy.Limit
	if len(reply) != replySize || reply[0] > 1 || reply[1] > 1 {
		return g, false, fmt.Errorf("script %s: reply %.60q, want %d bytes that begin with 0 or 1 twice, or the byte %d: the script on the server is not that of this release",
			For(l).Name, reply, replySize, full)
	}
	var v [10]int64
	replyFields.parse(reply, v[:])
	fits = v[0] == 1
	d := limit.Decision{Granted: v[2], Remaining: v[3], Period: limit.Micros(v[4]), StartsIn: limit.Micros(v[5]),
		TTL: limit.Micros(v[6]), RetryAfter: limit.Micros(v[7]), Reset: limit.Micros(v[8]), Block: limit.Block(v[9])}
	if l.Concurrent() {
		g = wordSlots(a, m, &d, fits, v[1] == 1)
	} else {
		w := a.Want
		if m == Fit && fits {
			w = lease.Want{}
		}
		g = a.Policy.Terms.Grant(l, &w, &d, v[1] == 1)
		if m >= Look {
			g.RetryAfter = lease.CeilMillis(d.RetryAfter)
		}
	}
	if m != Fit || g.Status == lease.Unavailable {
		fits = g.Status == lease.OK
	}
	return g, fits, nil
}

func wordSlots(a *engine.Ask, m Mode, d *limit.Decision, fits, held bool) lease.Grant {
	var need int64
	switch a.Op {
	case engine.Hold:
		if d.Period == 0 {
			return lease.Grant{Status: lease.Unavailable}
		}
		need = a.Want.Holding
		if m != Fit || !fits {
			need += a.Want.Need
		}
	case engine.Take:
		need = a.Want.Need
	case engine.Renew:
		need = 1
	}
	h := limit.HoldDecision{Granted: d.Granted, Remaining: d.Remaining, TTL: d.TTL, RetryAfter: d.RetryAfter}
	return a.Policy.Terms.SlotGrant(a.Policy.Limit, &h, need, held)
}
