package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
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
	return show(w.rules.of(m.Rule, m.Key), m.Group, lease.Want{Need: int64(m.Need), Waiting: int64(m.Waiting), Want: int64(m.Want),
		Unused: int64(m.Unused), Overdrawn: int64(m.Overdrawn), Denied: int64(m.Denied), Fresh: m.Fresh, Next: m.Next})
}

func (w *World) showAsk(a *limiter.Ask) string {
	if w.Trace == nil {
		return ""
	}
	return show(keyOf(a), a.Group, a.Want)
}

func show(key counterKey, group uint32, m lease.Want) string {
	var b strings.Builder
	b.WriteString(key.String())
	field(&b, "need", m.Need)
	field(&b, "waiting", m.Waiting)
	field(&b, "want", m.Want)
	field(&b, "unused", m.Unused)
	field(&b, "overdrawn", m.Overdrawn)
	field(&b, "denied", m.Denied)
	mark(&b, "fresh", m.Fresh)
	mark(&b, "next", m.Next)
	mark(&b, "group", group != 0)
	return b.String()
}

func (w *World) showGrant(key counterKey, g lease.Grant) string {
	if w.Trace == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", key, [...]string{"?", "ok", "denied", "unavailable", "unknown"}[g.Status])
	field(&b, "granted", g.Granted)
	field(&b, "starts_in", int64(g.StartsIn))
	field(&b, "ttl", int64(g.TTL))
	field(&b, "retry_after", int64(g.RetryAfter))
	field(&b, "ask_after", int64(g.AskAfter))
	if g.Status == lease.OK || g.Status == lease.Denied {
		fmt.Fprintf(&b, " left %d reset %d", g.Remaining, g.Reset)
	}
	return b.String()
}

func grantOf(g *wire.Grant) lease.Grant {
	return lease.Grant{Status: lease.Status(g.Status), Granted: int64(g.Granted), StartsIn: lease.Millis(g.StartsInMs), TTL: lease.Millis(g.TTLMs),
		RetryAfter: lease.Millis(g.RetryAfterMs), AskAfter: lease.Millis(g.AskAfterMs), Remaining: int64(g.Remaining), Reset: lease.Millis(g.ResetMs)}
}

func field(b *strings.Builder, name string, v int64) {
	if v != 0 {
		fmt.Fprintf(b, " %s %d", name, v)
	}
}

func mark(b *strings.Builder, name string, v bool) {
	if v {
		b.WriteString(" " + name)
	}
}
