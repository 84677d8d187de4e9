// Package response makes the response to a request that is decided: status, headers and body, and what
// the access log shows of it. The filter sends it; a program without Envoy makes the same one.
//
// Response headers:
//
//	RateLimit-Policy: "login";q=5;w=60, "client";q=1000;w=60
//	RateLimit: "login";r=0;t=41
//
// Both as in draft-ietf-httpapi-ratelimit-headers-11: all rules that applied, and of the one nearest its limit
// what remains and the seconds until there is more. A rejected request gets Retry-After beside them, never less
// than 1 nor earlier than t, and the name of the rule and the override that rejected it:
//
//	x-weir-rule: per-user/gold
//
// Where waiting does not help, or a stream has to end first, there is neither Retry-After nor t. Of a rule with
// headers: off there is Retry-After alone.
//
// A request that a shed rule rejects gets none of the limits: Retry-After, x-weir-rule and
//
//	x-envoy-overloaded: true
//
// A gRPC request gets a response of headers alone. They are complete: a filter in front that has made the request one of
// gRPC, such as Envoy's grpc_web, translates them, and Envoy adds nothing for such a request.
//
// A rejection by any rule also has the header that keeps an Envoy in front from repeating the request. A rejection
// because something failed lacks it: another PoP may admit the request.
//
//	x-envoy-ratelimited: true
package response

import (
	"strconv"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// Maker makes responses, one at a time: what it passes to add is valid until add returns, and what its
// fields hold until it makes the next one. The zero value makes them without headers that state a limit.
type Maker struct {
	// Headers is false if only rejections have headers, and none that state a limit.
	Headers bool
	// TimeOfDay is when a request was decided, for x-unix, as [edge.Worker.DecidedAt] states it.
	TimeOfDay func(*edge.Request) limit.Micros

	Body      []byte // of the rejection made last
	Remaining []byte // units that its rule has left, in decimal
	Details   []byte // its %RESPONSE_CODE_DETAILS%: weir-denied:per-user/gold, weir-shed:overload
	Decision  []byte // for the access log: per-user/gold denied on_failure, login denied block

	text []byte
}

// Admitted passes the headers of an admitted request to add and replace, each with its name in lower case. Those of
// the draft are lists, to which add appends. X-RateLimit-* have one value, so replace removes the upstream's.
func (m *Maker) Admitted(r *edge.Request, add, replace func(name, value string)) {
	if !m.Headers {
		return
	}
	if g := r.Governing(rule.Draft); g != nil {
		m.draft(r, g.Rule.Name, g.Remaining, ceilSeconds(g.Reset), true, add)
	}
	m.xRateLimit(r, replace)
}

// Rejected passes the headers of a rejection to add, and makes the rest of it.
func (m *Maker) Rejected(r *edge.Request, f *Rejection, add func(name, value string)) {
	m.Decide(f.name, r)
	m.Remaining = strconv.AppendInt(m.Remaining[:0], f.left, 10)
	add("content-type", m.body(f))
	if f.grpc {
		add("grpc-status", m.number(int64(f.GRPCStatus)))
		add("grpc-message", text(m.Body))
		m.Body = m.Body[:0]
	}
	if f.retry > 0 {
		add("retry-after", m.number(f.retry))
	}
	if f.Rule != nil && !f.failed {
		add("x-envoy-ratelimited", "true")
	}
	if f.shed {
		add("x-envoy-overloaded", "true")
	}
	if !m.Headers || f.hidden() {
		return
	}
	if f.Rule.Headers&rule.Draft != 0 && !f.shed {
		m.draft(r, f.Rule.Name, f.left, f.seconds, f.seconds > 0, add)
	}
	add("x-weir-rule", f.name)
	m.xRateLimit(r, add)
}

// Decide makes Decision and Details; name is that of a [edge.Quota], and empty for before_rules.
func (m *Maker) Decide(name string, r *edge.Request) {
	by := "weir-before-rules"
	if r.Shed != nil {
		by = "weir-shed:"
	} else if name != "" {
		by = "weir-denied:"
	}
	m.Details = appendAll(m.Details[:0], by, name)
	outcome, degraded := " allowed", ""
	if r.Outcome == edge.Deny {
		outcome = " denied"
	}
	if r.Degraded {
		degraded = " on_failure"
	}
	if r.Blocked {
		degraded = " block"
	}
	m.Decision = appendAll(m.Decision[:0], name, outcome, degraded)
}

// Exempt makes Decision of a request on which no rule decides, because of an exempt one.
func (m *Maker) Exempt(by string) { m.Decision = appendAll(m.Decision[:0], by, " exempt") }

// draft adds the headers of the draft; timed: with the seconds.
func (m *Maker) draft(r *edge.Request, name string, remaining, seconds int64, timed bool, add func(name, value string)) {
	m.text = m.text[:0]
	r.Quotas(func(q *edge.Quota) {
		if q.Rule.Headers&rule.Draft != 0 {
			if len(m.text) > 0 {
				m.text = append(m.text, ", "...)
			}
			m.text = append(m.text, q.Policy...)
		}
	})
	add("ratelimit-policy", text(m.text))
	m.text = appendAll(m.text[:0], `"`, name, `";r=`)
	m.text = strconv.AppendInt(m.text, remaining, 10)
	if timed {
		m.text = strconv.AppendInt(append(m.text, ";t="...), seconds, 10)
	}
	add("ratelimit", text(m.text))
}

// xRateLimit sets the X-RateLimit-* headers of the rules that have them.
func (m *Maker) xRateLimit(r *edge.Request, set func(name, value string)) {
	g := r.Governing(rule.XRateLimit)
	if g == nil {
		return
	}
	reset := ceilSeconds(g.Reset)
	if g.Rule.Headers&rule.XUnix != 0 {
		reset = int64((m.TimeOfDay(r) + limit.Micros(g.Reset)*limit.Millisecond + limit.Second - 1) / limit.Second)
	}
	set("x-ratelimit-limit", m.number(g.Limit))
	set("x-ratelimit-remaining", m.number(g.Remaining))
	set("x-ratelimit-reset", m.number(reset))
}

func (m *Maker) number(n int64) string {
	m.text = strconv.AppendInt(m.text[:0], n, 10)
	return text(m.text)
}

func ceilSeconds(d lease.Millis) int64 { return int64(d+999) / 1000 }

// text is b as a string that shares its memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// appendAll is not inlined: its callers are many.
//
//go:noinline
func appendAll(dst []byte, parts ...string) []byte {
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return dst
}
