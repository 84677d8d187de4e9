package filter

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// Response headers.
//
//	RateLimit-Policy: "login";q=5;w=60, "client";q=1000;w=60
//	RateLimit: "login";r=0;t=41
//
// as in draft-ietf-httpapi-ratelimit-headers-10: all rules that applied, and of
// the one nearest its limit what remains and the seconds until there is more.
// A refused request gets Retry-After beside them, never less than 1 nor earlier
// than t, and x-weir-rule, the rule that refused it.
const (
	headerPolicy = "ratelimit-policy"
	headerLimit  = "ratelimit"
)

// response is where responses are put together; one is under construction at a
// time.
type response struct {
	text    []byte
	headers headerMap
	body    []byte
}

// annotate adds the headers of an admitted request to its response.
func (p *plugin) annotate(s *stream) {
	r := &s.request
	if r.Outcome != edge.Admit {
		return
	}
	if p.cfg.Headers {
		p.host.addResponseHeader(headerPolicy, p.buf.policy(r))
		p.host.addResponseHeader(headerLimit, p.buf.limit(r.Governing()))
	}
	p.buf.xRateLimit(p, r.Governing(), p.host.addResponseHeader)
}

// policy is the value of RateLimit-Policy. Like the others it is valid until the
// next one is made.
func (b *response) policy(r *edge.Request) string {
	only, n := "", 0
	b.text = b.text[:0]
	r.Reports(func(report *edge.Report) {
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

// limit is the value of RateLimit.
func (b *response) limit(g *edge.Report) string {
	b.text = append(append(append(b.text[:0], '"'), g.Rule.Name...), `";r=`...)
	b.text = strconv.AppendInt(b.text, g.Remaining, 10)
	b.text = append(b.text, ";t="...)
	b.text = strconv.AppendInt(b.text, ceilSeconds(g.Reset), 10)
	return text(b.text)
}

// extra reports whether a response needs headers beside the standard ones.
func (b *response) extra(r *edge.Request) bool {
	return r.Governing().Rule.XRateLimit != rule.XRateLimitOff
}

// xRateLimit adds the X-RateLimit-* headers that the governing rule asks for.
func (b *response) xRateLimit(p *plugin, g *edge.Report, add func(name, value string)) {
	if g.Rule.XRateLimit == rule.XRateLimitOff {
		return
	}
	reset := ceilSeconds(g.Reset)
	if g.Rule.XRateLimit == rule.XRateLimitUnix {
		now := p.worker.Wall(p.host.now())
		reset = int64((now + limit.Micros(g.Reset)*limit.Millisecond + limit.Second - 1) / limit.Second)
	}
	add("x-ratelimit-limit", b.number(g.Limit))
	add("x-ratelimit-remaining", b.number(g.Remaining))
	add("x-ratelimit-reset", b.number(reset))
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

// refuse answers a request that was denied. Envoy turns the answer to a gRPC
// request into a response of trailers only.
func (p *plugin) refuse(r *edge.Request) {
	g := r.Governing()
	name, details := "", "weir_before_rules"
	h := &p.buf.headers
	h.reset()
	grpc := strings.HasPrefix(p.requestHeader("content-type"), "application/grpc")
	if !grpc {
		h.add("content-type", "application/problem+json")
	}
	if g != nil {
		name, details = g.Rule.Name, "weir_denied{"+g.Rule.Name+"}"
		h.add("x-weir-rule", name)
		if p.cfg.Headers {
			h.add(headerPolicy, p.buf.policy(r))
			h.add(headerLimit, p.buf.limit(g))
		}
		p.buf.xRateLimit(p, g, h.add)
	}
	h.add("retry-after", p.buf.number(max(1, ceilSeconds(r.RetryAfter))))
	p.note(r)
	status, grpcStatus := r.Status, grpcResourceExhausted
	if r.Degraded {
		grpcStatus = grpcUnavailable
	}
	p.host.respond(status, details, h.bytes(), p.buf.problem(status, name, grpc), grpcStatus)
}

// problem is the body of a refusal: a problem document (RFC 9457) of the types that
// the draft registers, or plain text for gRPC, whose message it becomes.
func (b *response) problem(status int, name string, grpc bool) []byte {
	kind, title := "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	if status == 429 {
		kind, title = "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	}
	if grpc {
		b.body = append(b.body[:0], title...)
		if name != "" {
			b.body = append(append(b.body, ": "...), name...)
		}
		return b.body
	}
	b.body = append(b.body[:0], `{"type":"https://iana.org/assignments/http-problem-types#`...)
	b.body = append(append(b.body, kind...), `","title":"`...)
	b.body = append(append(b.body, title...), `","status":`...)
	b.body = strconv.AppendInt(b.body, int64(status), 10)
	if name != "" {
		b.body = append(append(append(b.body, `,"violated-policies":["`...), name...), `"]`...)
	}
	return append(b.body, "}\n"...)
}

// note tells the access log about every decision that is not simply allowed, as
// %FILTER_STATE(wasm.weir.decided:PLAIN)%: the rule and what became of it.
func (p *plugin) note(r *edge.Request) {
	switch g := r.Governing(); {
	case g == nil || r.Outcome == edge.Admit && !r.Degraded:
	case r.Outcome == edge.Admit:
		p.host.setFilterState("weir.decided", g.Rule.Name+" allowed on_failure")
	case r.Degraded:
		p.host.setFilterState("weir.decided", g.Rule.Name+" denied on_failure")
	default:
		p.host.setFilterState("weir.decided", g.Rule.Name+" denied")
	}
}

// callHeaders are the headers of a call to the region.
func (b *response) callHeaders(cfg *edge.Config, c *edge.Call) []byte {
	h := &b.headers
	h.reset()
	h.add(":method", "POST")
	h.add(":path", c.Path)
	h.add(":authority", cfg.Authority)
	h.add("content-type", "application/proto")
	h.add("connect-protocol-version", "1")
	h.add("connect-timeout-ms", b.number(int64(c.Timeout)))
	if c.TraceParent != "" {
		h.add("traceparent", c.TraceParent)
	}
	return h.bytes()
}

// headerMap serialises headers as the host wants them, see eachHeader.
type headerMap struct {
	n     int
	sizes []byte
	texts []byte
	out   []byte
}

func (h *headerMap) reset() { h.n, h.sizes, h.texts = 0, h.sizes[:0], h.texts[:0] }

func (h *headerMap) add(name, value string) {
	h.n++
	h.sizes = binary.LittleEndian.AppendUint32(h.sizes, uint32(len(name)))
	h.sizes = binary.LittleEndian.AppendUint32(h.sizes, uint32(len(value)))
	h.texts = append(append(h.texts, name...), 0)
	h.texts = append(append(h.texts, value...), 0)
}

func (h *headerMap) bytes() []byte {
	h.out = binary.LittleEndian.AppendUint32(h.out[:0], uint32(h.n))
	h.out = append(append(h.out, h.sizes...), h.texts...)
	return h.out
}
