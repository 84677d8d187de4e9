package sim

import (
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

func itoa[T ~int | ~int64 | ~uint32](n T) string { return strconv.FormatInt(int64(n), 10) }

// pad writes numbers that are ordered as text.
func pad(n uint64) string { return fmt.Sprintf("%020d ", n) }

// showWant, showAsk and showGrant write what a message has, leaving out what is zero.
func (w *World) showWant(m *wire.Want) string {
	if w.Trace == nil {
		return ""
	}
	want, _ := bridge.WantFromWire(w.rules.find(m.Rule).Limit, m)
	return show(w.rules.of(m.Rule, m.Key), m.Group, want)
}

func (w *World) showAsk(a *limiter.Ask) string {
	if w.Trace == nil {
		return ""
	}
	return show(keyOf(a), a.Group, a.Want)
}

func show(key counterKey, group uint32, m lease.Want) string {
	return key.String() + fields("need", m.Need, "waiting", m.Waiting, "want", m.Want, "unused", m.Unused,
		"overdrawn", m.Overdrawn, "denied", m.Denied, "fresh", m.Fresh, "next", m.Next, "group", group != 0)
}

func (w *World) showGrant(key counterKey, g lease.Grant) string {
	if w.Trace == nil {
		return ""
	}
	left := ""
	if g.Status == lease.OK || g.Status == lease.Denied {
		left = fmt.Sprintf(" left %d reset %d", g.Remaining, g.Reset)
	}
	return fmt.Sprintf("%v %s", key, [...]string{"?", "ok", "denied", "unavailable", "unknown"}[g.Status]) +
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
