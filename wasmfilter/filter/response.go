package filter

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/refusal"
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
// nor earlier than t, and the name of the rule and the override that refused it:
//
//	x-weir-rule: per-user/gold
//
// Where waiting does not help, or a stream has to end first, there is neither Retry-After nor
// t. Of a rule with headers: off there is Retry-After alone.
//
// The decision is for the access log, not for clients: a client that reads that a limit
// is open while the region is away could use that. A refusal is %RESPONSE_CODE_DETAILS%:
//
//	weir-denied:login
//	weir-denied:per-user/gold
//
// The rest is filter state, such as %FILTER_STATE(wasm.weir.rule:PLAIN)%. Each costs a call of the
// host, so a request that is admitted has none unless there is something to say:
//
//	weir            what is decided without the region, login allowed on_failure,
//	                or the exempt rule by which a request passes if no other rule decides on it, internal exempt
//	weir.shadow     the shadow rules and candidates that would have refused it, with a comma between them
//
// A refusal has weir.rule, weir.override if one is used, weir.key, which is what the key is counted by, so
// perhaps a hash, and nothing with live: off, and weir.remaining. With span_tags all requests have
// weir.rule, weir.outcome (allowed or denied), weir.consistency, weir.degraded (true or false) and weir.override.
const (
	headerPolicy  = "ratelimit-policy"
	headerLimit   = "ratelimit"
	headerRule    = "x-weir-rule"
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
	last    refused // whose headers, body and decision these are
}

// annotates reports whether the response to an admitted request gets headers.
func (p *plugin) annotates(r *edge.Request) bool {
	return p.cfg.Headers && r.Governing(rule.Draft|rule.XRateLimit) != nil
}

// annotate adds the headers of an admitted request to its response.
func (p *plugin) annotate(s *stream) {
	r := &s.request
	if r.Outcome != edge.Admit || !p.cfg.Headers {
		return
	}
	if g := r.Governing(rule.Draft); g != nil {
		p.host.addResponseHeader(headerPolicy, p.buf.policy(r))
		p.host.addResponseHeader(headerLimit, p.buf.limit(g.Rule.Name, g.Remaining, ceilSeconds(g.Reset), true))
	}
	p.xRateLimit(r, p.host.addResponseHeader)
}

// report writes to the access log that a request is admitted without its region, or that a
// shadow rule would refuse it.
func (p *plugin) report(r *edge.Request) {
	p.tag(r)
	if len(r.WouldDeny) > 0 {
		p.host.setState("weir.shadow", strings.Join(r.WouldDeny, ","))
	}
	if !r.Degraded {
		return
	}
	if g := r.Governing(rule.AnyHeaders); g != nil {
		p.buf.last = refused{}
		p.buf.decision(g.Name, r)
		p.host.setState(decisionState, text(p.buf.log))
	}
}

// reportExempt writes to the access log that no rule decides on a request, because of an exempt one.
func (p *plugin) reportExempt(by string) {
	p.buf.text = appendAll(p.buf.text[:0], by, " exempt")
	p.host.setState(decisionState, text(p.buf.text))
}

// tag puts on a request that is refused, or with span_tags on each, where access log and tracer find it:
// the rule that denied, or that is nearest its limit, and what it decided by.
func (p *plugin) tag(r *edge.Request) {
	denied := r.Outcome == edge.Deny
	if !denied && !p.cfg.SpanTags {
		return
	}
	g := r.Governing(rule.AnyHeaders)
	if g == nil {
		return
	}
	p.host.setState("weir.rule", g.Rule.Name)
	if p.cfg.SpanTags {
		outcome := "allowed"
		if denied {
			outcome = "denied"
		}
		p.host.setState("weir.outcome", outcome)
		p.host.setState("weir.consistency", g.Rule.Consistency.String())
		p.host.setState("weir.degraded", strconv.FormatBool(r.Degraded))
	}
	if override := g.Override(); override != "" {
		p.host.setState("weir.override", override)
	}
	if denied {
		if key := r.DeniedKey(); len(key) > 0 {
			p.host.setState("weir.key", text(key))
		}
		p.host.setState("weir.remaining", p.buf.number(g.Remaining))
	}
}

// policy is the value of RateLimit-Policy. Like the others it is valid until the
// next one is made.
func (b *response) policy(r *edge.Request) string {
	only, n := "", 0
	b.text = b.text[:0]
	r.Quotas(func(report *edge.Quota) {
		if report.Rule.Headers&rule.Draft == 0 {
			return
		}
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
	if b.details = appendAll(b.details[:0], "weir-before-rules"); name != "" {
		b.details = appendAll(b.details[:0], "weir-denied:", name)
	}
	outcome, degraded := " allowed", ""
	if r.Outcome == edge.Deny {
		outcome = " denied"
	}
	if r.Degraded {
		degraded = " on_failure"
	}
	b.log = appendAll(b.log[:0], name, outcome, degraded)
}

// xRateLimit adds the X-RateLimit-* headers of the rules that have them.
func (p *plugin) xRateLimit(r *edge.Request, add func(name, value string)) {
	g := r.Governing(rule.XRateLimit)
	if g == nil {
		return
	}
	reset := ceilSeconds(g.Reset)
	if g.Rule.Headers&rule.XUnix != 0 {
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

const grpcUnavailable = 14

// refused is what the answer to a refused request contains. A flood gets the same one
// again and again, until a second has passed: then it is not made anew.
type refused struct {
	rule     *rule.Rule // nil: before_rules
	name     string     // with the override
	override string     // empty: none is used
	policy   string
	limit    int64
	left     int64 // units
	status   int
	seconds  int64 // until the limit has more
	retry    int64 // seconds of Retry-After; 0: there is none
	grpc     bool
	degraded bool
	failed   bool
}

// hidden reports that the client is not told which rule it was.
func (r *refused) hidden() bool { return r.rule == nil || r.rule.Headers == rule.HeadersOff }

// refuse answers a request that was denied. Envoy turns the answer to a gRPC
// request into a response of trailers only.
func (p *plugin) refuse(r *edge.Request) {
	this := refused{
		status:   r.Status,
		retry:    ceilSeconds(r.RetryAfter),
		grpc:     strings.HasPrefix(p.requestHeader("content-type"), "application/grpc"),
		degraded: r.Degraded,
		failed:   r.Failed,
	}
	g := r.Governing(rule.AnyHeaders)
	if g != nil {
		this.rule, this.name, this.override, this.policy = g.Rule, g.Name, g.Override(), g.Policy
		this.limit, this.left, this.seconds = g.Limit, g.Remaining, ceilSeconds(g.Reset)
	}
	if b := &p.buf; this != b.last || g != nil && g.Rule.Headers&rule.XRateLimit != 0 || !r.Alone() {
		b.last = this
		p.refusalHeaders(r, &this)
		b.headers.bytes()
		b.decision(this.name, r)
	}
	if g != nil && r.Degraded {
		p.host.setState(decisionState, text(p.buf.log))
	}
	p.tag(r)
	status := grpcUnavailable
	if g != nil && !r.Degraded {
		status = g.Rule.Refusal.GRPCStatus
	}
	p.host.respond(r.Status, text(p.buf.details), p.buf.headers.out, p.buf.body, status)
}

// refusalHeaders makes the headers and the body of a refusal.
func (p *plugin) refusalHeaders(r *edge.Request, this *refused) {
	h := &p.buf.headers
	h.reset()
	if kind := p.buf.refusal(this); kind != "" {
		h.add("content-type", kind)
	}
	if this.retry > 0 {
		h.add("retry-after", p.buf.number(this.retry))
	}
	if !p.cfg.Headers || this.hidden() {
		return
	}
	if this.rule.Headers&rule.Draft != 0 {
		h.add(headerPolicy, p.buf.policy(r))
		h.add(headerLimit, p.buf.limit(this.rule.Name, this.left, this.seconds, this.seconds > 0))
	}
	h.add(headerRule, this.name)
	p.xRateLimit(r, h.add)
}

// refusal makes the body of a refusal, and returns its content type.
func (b *response) refusal(this *refused) (contentType string) {
	if this.rule != nil && this.rule.Refusal.Body != "" && !this.grpc && !this.failed {
		form := &this.rule.Refusal
		b.body = form.AppendBody(b.body[:0], refusal.Values{Rule: this.rule.Name, RetryAfter: this.retry, Limit: this.limit})
		return form.ContentType
	}
	b.problem(this)
	if this.grpc {
		return ""
	}
	return "application/problem+json"
}

// problem makes the body of a rule that states none: a problem document (RFC 9457) of the types
// that the draft registers, or plain text for gRPC, whose message it becomes.
func (b *response) problem(this *refused) {
	kind, title := "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	if this.status == 429 || this.rule != nil && !this.failed {
		kind, title = "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	}
	if this.grpc {
		if b.body = appendAll(b.body[:0], title); !this.hidden() {
			b.body = appendAll(b.body, ": ", this.rule.Name)
		}
		return
	}
	b.body = appendAll(b.body[:0], `{"type":"https://iana.org/assignments/http-problem-types#`, kind, `","title":"`, title, `","status":`)
	b.body = strconv.AppendInt(b.body, int64(this.status), 10)
	if !this.hidden() {
		b.violated(this)
	}
	b.body = appendAll(b.body, "}\n")
}

// violated adds to a problem document what the headers state of the rule. Names have nothing that JSON escapes.
func (b *response) violated(this *refused) {
	name := this.rule.Name
	b.body = appendAll(b.body, `,"violated-policies":["`, name, `"],"rule":"`, name)
	if this.override != "" {
		b.body = appendAll(b.body, `","override":"`, this.override)
	}
	b.body = strconv.AppendQuote(appendAll(b.body, `","policy":`), this.policy)
	b.body = strconv.AppendInt(appendAll(b.body, `,"remaining":`), this.left, 10)
	if this.retry > 0 {
		b.body = strconv.AppendInt(appendAll(b.body, `,"retry-after":`), this.retry, 10)
	}
}

func appendAll(dst []byte, parts ...string) []byte {
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return dst
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
