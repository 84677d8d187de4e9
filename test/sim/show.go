package sim

import (
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
)

func itoa[T ~int | ~int64 | ~uint32](n T) string { return strconv.FormatInt(int64(n), 10) }

// showWant and showGrant write what a message has, leaving out what is zero.
func (w *World) showWant(it *item) string {
	if w.Trace == nil {
		return ""
	}
	m := &it.want
	return it.key.String() + fields("need", m.Need, "waiting", m.Waiting, "want", m.Want, "unused", m.Unused,
		"overdrawn", m.Overdrawn, "denied", m.Denied, "fresh", m.Fresh, "next", m.Next, "group", it.group != 0)
}

func (w *World) showGrant(it *item) string {
	if w.Trace == nil {
		return ""
	}
	g, left := &it.grant, ""
	if g.Status == lease.OK || g.Status == lease.Denied {
		left = fmt.Sprintf(" left %d reset %d", g.Remaining, g.Reset)
	}
	return fmt.Sprintf("%v %s", it.key, [...]string{"?", "ok", "denied", "unavailable", "unknown"}[g.Status]) +
		fields("granted", g.Granted, "starts_in", int64(g.StartsIn), "ttl", int64(g.TTL),
			"retry_after", int64(g.RetryAfter), "ask_after", int64(g.AskAfter)) + left
}

// fields writes pairs of a name and a number, or of a name and whether it applies.
func fields(pairs ...any) (text string) {
	for i := 0; i < len(pairs); i += 2 {
		switch v := pairs[i+1]; {
		case v == true:
			text += fmt.Sprint(" ", pairs[i])
		case v != int64(0) && v != false:
			text += fmt.Sprintf(" %s %d", pairs[i], v)
		}
	}
	return text
}
