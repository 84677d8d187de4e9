package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
)

func itoa[T ~int | ~int64 | ~uint32](n T) string { return strconv.FormatInt(int64(n), 10) }

// showWant and showGrant write what a message says, leaving out what is zero.
func (w *World) showWant(wt want) string {
	var b strings.Builder
	b.WriteString(wt.key.String())
	field(&b, "need", wt.Need)
	field(&b, "waiting", wt.Waiting)
	field(&b, "want", wt.Want.Want)
	field(&b, "unused", wt.Unused)
	field(&b, "overdrawn", wt.Overdrawn)
	field(&b, "denied", wt.Denied)
	mark(&b, "fresh", wt.Fresh)
	mark(&b, "next", wt.Next)
	mark(&b, "group", wt.group)
	return b.String()
}

func (w *World) showGrant(wt want, g grant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", wt.key, [...]string{"?", "ok", "denied", "unavailable", "unknown"}[g.Status])
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
