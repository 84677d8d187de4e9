package filter

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// Response headers.
//
//	RateLimit-Policy: "login";q=5;w=60, "client";q=1000;w=60
//	RateLimit: "login";r=0;t=41
//
// The first two as in draft-ietf-httpapi-ratelimit-headers-10: all rules that
// applied, and of the one nearest its limit what remains and the seconds until
// there is more. A refused request gets Retry-After beside them, never less than 1
// nor earlier than t. Where waiting does not help, or a stream has to end first, there is
// neither Retry-After nor t.
//
// The decision is for the access log, not for clients: a client that reads that a limit
// is open while the region is away could use that. A refusal is %RESPONSE_CODE_DETAILS%:
//
//	weir-denied:login
//
// What is decided without the region is filter state, %FILTER_STATE(wasm.weir:PLAIN)%, which
// costs a call of the host:
//
//	login allowed on_failure
//
// With span_tags it is also in parts, for all requests, as weir.rule, weir.outcome (allowed
// or denied), weir.consistency and weir.degraded (true or false).
const (
	headerPolicy  = "ratelimit-policy"
	headerLimit   = "ratelimit"
	decisionState = "weir"
)

// response is where responses are put together; one is under construction at a
// time.
type response struct {
	text    []byte
	headers headerMap
	body    []byte
	log     []byte  // the decision, for the access log
	details []byte  // response code details of a refusal
	last    refusal // whose headers, body and decision these are
}

// annotates reports whether the response to an admitted request gets headers.
func (p *plugin) annotates(r *edge.Request) bool {
	g := r.Governing()
	return g != nil && (p.cfg.Headers || g.Rule.XRateLimit != rule.XRateLimitOff)
}

// annotate adds the headers of an admitted request to its response.
func (p *plugin) annotate(s *stream) {
	r := &s.request
	g := r.Governing()
	if r.Outcome != edge.Admit || g == nil {
		return
	}
	if p.cfg.Headers {
		p.host.addResponseHeader(headerPolicy, p.buf.policy(r))
		p.host.addResponseHeader(headerLimit, p.buf.limit(g.Rule.Name, g.Remaining, ceilSeconds(g.Reset), true))
	}
	p.xRateLimit(g, p.host.addResponseHeader)
}

// report writes to the access log that a request is admitted without its region.
func (p *plugin) report(r *edge.Request) {
	p.tag(r)
	if g := r.Governing(); r.Degraded && g != nil {
		p.buf.last = refusal{}
		p.buf.decision(g.Rule.Name, r)
		p.host.setState(decisionState, text(p.buf.log))
	}
}

// tag puts the decision on a request where Envoy's tracer finds it: the rule that denied, or
// that is nearest its limit.
func (p *plugin) tag(r *edge.Request) {
	g := r.Governing()
	if !p.cfg.SpanTags || g == nil {
		return
	}
	outcome, degraded := "allowed", "false"
	if r.Outcome == edge.Deny {
		outcome = "denied"
	}
	if r.Degraded {
		degraded = "true"
	}
	p.host.setState("weir.rule", g.Rule.Name)
	p.host.setState("weir.outcome", outcome)
	p.host.setState("weir.consistency", g.Rule.Consistency.String())
	p.host.setState("weir.degraded", degraded)
}

// policy is the value of RateLimit-Policy. Like the others it is valid until the
// next one is made.
func (b *response) policy(r *edge.Request) string {
	only, n := "", 0
	b.text = b.text[:0]
	r.Quotas(func(report *edge.Quota) {
		if n++; n > 1 {
			b.text = append(b.text, ", "...)
		}
		only = report.Policy
		b.text = append(b.text, only...)
	})
	if n == 1 {
		return only
	}
	return text(b.text)
}

// limit is the value of RateLimit; timed: with the seconds.
func (b *response) limit(name string, remaining, seconds int64, timed bool) string {
	b.text = append(append(append(b.text[:0], '"'), name...), `";r=`...)
	b.text = strconv.AppendInt(b.text, remaining, 10)
	if timed {
		b.text = append(b.text, ";t="...)
		b.text = strconv.AppendInt(b.text, seconds, 10)
	}
	return text(b.text)
}

// decision puts together what the access log shows; name is empty for before_rules.
func (b *response) decision(name string, r *edge.Request) {
	if b.details = append(b.details[:0], "weir-before-rules"...); name != "" {
		b.details = append(append(b.details[:0], "weir-denied:"...), name...)
	}
	b.log = append(b.log[:0], name...)
	if r.Outcome == edge.Deny {
		b.log = append(b.log, " denied"...)
	} else {
		b.log = append(b.log, " allowed"...)
	}
	if r.Degraded {
		b.log = append(b.log, " on_failure"...)
	}
}

// xRateLimit adds the X-RateLimit-* headers that the governing rule asks for.
func (p *plugin) xRateLimit(g *edge.Quota, add func(name, value string)) {
	if g.Rule.XRateLimit == rule.XRateLimitOff {
		return
	}
	reset := ceilSeconds(g.Reset)
	if g.Rule.XRateLimit == rule.XRateLimitUnix {
		now := p.worker.Wall(p.host.now())
		reset = int64((now + limit.Micros(g.Reset)*limit.Millisecond + limit.Second - 1) / limit.Second)
	}
	add("x-ratelimit-limit", p.buf.number(g.Limit))
	add("x-ratelimit-remaining", p.buf.number(g.Remaining))
	add("x-ratelimit-reset", p.buf.number(reset))
}

func (b *response) number(n int64) string {
	b.text = strconv.AppendInt(b.text[:0], n, 10)
	return text(b.text)
}

// gRPC status codes of a refusal.
const (
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// refusal is what the answer to a refused request contains. A flood gets the same one
// again and again, until a second has passed: then it is not made anew.
type refusal struct {
	rule     string // empty: before_rules
	policy   string
	status   int
	seconds  int64 // of Retry-After; 0: there is none
	grpc     bool
	degraded bool
	x        rule.XRateLimit
}

// refuse answers a request that was denied. Envoy turns the answer to a gRPC
// request into a response of trailers only.
func (p *plugin) refuse(r *edge.Request) {
	this := refusal{
		status:   r.Status,
		seconds:  ceilSeconds(r.RetryAfter),
		grpc:     strings.HasPrefix(p.requestHeader("content-type"), "application/grpc"),
		degraded: r.Degraded,
	}
	g := r.Governing()
	if g != nil {
		this.rule, this.policy, this.x = g.Rule.Name, g.Policy, g.Rule.XRateLimit
	}
	if b := &p.buf; this != b.last || this.x != rule.XRateLimitOff || !r.Alone() {
		b.last = this
		p.refusalHeaders(r, &this)
		b.headers.bytes()
		b.problem(&this)
		b.decision(this.rule, r)
	}
	if g != nil && r.Degraded {
		p.host.setState(decisionState, text(p.buf.log))
	}
	p.tag(r)
	status := grpcResourceExhausted
	if r.Degraded {
		status = grpcUnavailable
	}
	p.host.respond(r.Status, text(p.buf.details), p.buf.headers.out, p.buf.body, status)
}

// refusalHeaders makes the headers of a refusal.
func (p *plugin) refusalHeaders(r *edge.Request, this *refusal) {
	h := &p.buf.headers
	h.reset()
	if !this.grpc {
		h.add("content-type", "application/problem+json")
	}
	if this.seconds > 0 {
		h.add("retry-after", p.buf.number(this.seconds))
	}
	g := r.Governing()
	if g == nil {
		return
	}
	if p.cfg.Headers {
		h.add(headerPolicy, p.buf.policy(r))
		h.add(headerLimit, p.buf.limit(this.rule, g.Remaining, this.seconds, this.seconds > 0))
	}
	p.xRateLimit(g, h.add)
}

// problem makes the body of a refusal: a problem document (RFC 9457) of the types
// that the draft registers, or plain text for gRPC, whose message it becomes.
func (b *response) problem(this *refusal) {
	kind, title := "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	if this.status == 429 {
		kind, title = "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	}
	if this.grpc {
		b.body = append(b.body[:0], title...)
		if this.rule != "" {
			b.body = append(append(b.body, ": "...), this.rule...)
		}
		return
	}
	b.body = append(b.body[:0], `{"type":"https://iana.org/assignments/http-problem-types#`...)
	b.body = append(append(b.body, kind...), `","title":"`...)
	b.body = append(append(b.body, title...), `","status":`...)
	b.body = strconv.AppendInt(b.body, int64(this.status), 10)
	if this.rule != "" {
		b.body = append(append(append(b.body, `,"violated-policies":["`...), this.rule...), `"]`...)
	}
	b.body = append(b.body, "}\n"...)
}

// callHeaders are the headers of a call to the region.
func callHeaders(cfg *rulebook.Config, c *uplink.Call) []byte {
	var h headerMap
	h.add(":method", "POST")
	h.add(":path", c.Path)
	h.add(":authority", cfg.Authority)
	h.add("content-type", "application/proto")
	h.add("connect-protocol-version", "1")
	h.add("connect-timeout-ms", strconv.FormatInt(int64(c.Timeout), 10))
	if c.TraceParent != "" {
		h.add("traceparent", c.TraceParent)
	}
	return h.bytes()
}
