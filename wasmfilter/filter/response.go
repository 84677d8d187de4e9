package filter

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/response"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// decisionState is filter state, such as %FILTER_STATE(wasm.weir:PLAIN)%. Each costs a call of the
// host, so a request that is admitted has none unless there is something to say:
//
//	weir            what is decided without the region, login allowed on_failure,
//	                or because the key is blocked, login denied block,
//	                or the exempt rule by which a request passes if no other rule decides on it, internal exempt
//	weir.shadow     the shadow rules and candidates that would have rejected it, with a comma between them
//
// A rejection has weir.rule, weir.override if one is used, weir.key, which is what the key is counted by, so
// perhaps a hash, and nothing with hide_keys: true, and weir.remaining; one by a shed rule has weir.rule and weir.class. With span_tags all requests have
// weir.rule, weir.outcome (allowed or denied), weir.consistency, weir.degraded (true or false) and weir.override.
// Clients get none of it: one that reads that a limit is open while the region is away could use that.
const decisionState = "weir"

// annotatesLater reports whether the response to an admitted request gets headers when it comes.
func (p *plugin) annotatesLater(r *edge.Request) bool {
	return !p.host.KeepsHeaders() && p.cfg.Headers && r.Governing(rule.Draft|rule.XRateLimit) != nil
}

// annotate adds the headers of an admitted request to its response.
func (p *plugin) annotate(r *edge.Request) {
	p.maker.Admitted(r, p.host.AddResponseHeader, p.host.ReplaceResponseHeader)
}

// sample has the shed rules of a request look at its response, if it is one of those that they look at.
func (p *plugin) sample(r *edge.Request) {
	if !p.worker.Samples(r) {
		return
	}
	status, _ := p.host.ResponseHeader(":status")
	failed := status >= "500" // the next header has its place
	load, _ := p.host.ResponseHeader("endpoint-load-metrics")
	load = strings.Clone(load)
	binary, _ := p.host.ResponseHeader("endpoint-load-metrics-bin")
	p.worker.Responded(p.host.Now(), r, failed, shed.Load(load, binary))
}

// settle settles the reservations of a request by its response, which may have trailers.
func (p *plugin) settle(r *edge.Request, trailers bool) {
	by := settle.Response{Trailers: trailers, Cost: p.costInHeaders}
	details, _ := p.host.Property(CodeDetails)
	by.Upstream = details == "via_upstream"
	status, _ := p.host.ResponseHeader(":status")
	by.Status, _ = strconv.Atoi(status)
	grpc, _ := p.host.ResponseHeader("grpc-status")
	by.GRPCStatus = grpcStatus(grpc)
	p.worker.Settle(p.host.Now(), r, by)
}

// costInHeaders returns the cost that the headers of the response state.
func (p *plugin) costInHeaders(a *settle.Actual) (text string, known bool) {
	if a.From != settle.FromHeader {
		return "", false
	}
	text, _ = p.host.ResponseHeader(a.Name)
	return text, true
}

// costInTrailers returns the cost that the trailers of the response state.
func (p *plugin) costInTrailers(a *settle.Actual) (text string, known bool) {
	if a.From != settle.FromTrailer {
		return "", false
	}
	text, _ = p.host.ResponseTrailer(a.Name)
	return text, true
}

// costAtEnd returns the cost that the metadata or the body of the stream states when it ends.
func (p *plugin) costAtEnd(a *settle.Actual) (text string, known bool) {
	if a.From == settle.FromBody {
		text, _ = p.host.ResponseNumber(a.Name)
		return text, true
	}
	if a.From != settle.FromMetadata {
		return "", false
	}
	raw, ok := p.host.Property(pathOf(a.Name))
	if !ok {
		return "", true
	}
	return p.known.read(raw).Text, true
}

// grpcStatus is the status of gRPC that a header or a trailer states.
func grpcStatus(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return settle.NoGRPCStatus
}

// report writes to the access log that a request is admitted without its region, or that a
// shadow rule would reject it. A host that keeps headers gets those of the response.
func (p *plugin) report(r *edge.Request) {
	if p.host.KeepsHeaders() && !r.HasReservations() {
		p.annotate(r)
	}
	p.tag(r)
	if len(r.WouldDeny) > 0 {
		p.host.SetState("weir.shadow", strings.Join(r.WouldDeny, ","))
	}
	if !r.Degraded {
		return
	}
	if g := r.Governing(rule.AnyHeaders); g != nil {
		p.last = response.Rejection{}
		p.maker.Decide(g.Name, r)
		p.host.SetState(decisionState, text(p.maker.Decision))
	}
}

// reportExempt writes to the access log that no rule decides on a request, because of an exempt one.
func (p *plugin) reportExempt(by string) {
	p.last = response.Rejection{}
	p.maker.Exempt(by)
	p.host.SetState(decisionState, text(p.maker.Decision))
}

// tag puts on a request that is rejected, or with span_tags on each, where access log and tracer find it:
// the rule that denied, or that is nearest its limit, and what it decided by.
func (p *plugin) tag(r *edge.Request) {
	denied := r.Outcome == edge.Deny
	if !denied && !p.cfg.SpanTags {
		return
	}
	if r.Shed != nil {
		p.host.SetState("weir.rule", r.Shed.Name)
		p.host.SetState("weir.class", r.Class.String())
		if p.cfg.SpanTags {
			p.host.SetState("weir.outcome", "denied")
		}
		return
	}
	g := r.Governing(rule.AnyHeaders)
	if g == nil {
		return
	}
	p.host.SetState("weir.rule", g.Rule.Name)
	if p.cfg.SpanTags {
		outcome := "allowed"
		if denied {
			outcome = "denied"
		}
		p.host.SetState("weir.outcome", outcome)
		p.host.SetState("weir.consistency", g.Consistency.String())
		p.host.SetState("weir.degraded", strconv.FormatBool(r.Degraded))
	}
	if override := g.Override(); override != "" {
		p.host.SetState("weir.override", override)
	}
	if denied {
		if key := r.DeniedKey(); len(key) > 0 {
			p.host.SetState("weir.key", text(key))
		}
		p.host.SetState("weir.remaining", text(p.maker.Remaining))
	}
}

// isGRPC reports what Envoy takes for a content type of gRPC. application/grpc-web is none.
func isGRPC(contentType string) bool {
	return contentType == "application/grpc" || strings.HasPrefix(contentType, "application/grpc+")
}

// reject answers a request that was denied.
func (p *plugin) reject(r *edge.Request) {
	contentType, _ := p.host.Header("content-type")
	grpc := isGRPC(contentType)
	this := response.Reject(r, grpc)
	h := &p.headers
	if this != p.last || this.Varies {
		p.last = this
		h.reset()
		p.maker.Rejected(r, &this, h.add)
		h.bytes()
	}
	if this.Rule != nil && (r.Degraded || r.Blocked) {
		p.host.SetState(decisionState, text(p.maker.Decision))
	}
	p.tag(r)
	status := this.Status
	if grpc {
		status = 200
	}
	p.host.Respond(status, text(p.maker.Details), h.out, p.maker.Body, this.GRPCStatus)
}

// respondPlainly rejects a request on which the filter has panicked.
func (p *plugin) respondPlainly(status int) {
	contentType, _ := p.host.Header("content-type")
	p.last = response.Rejection{}
	h := &p.headers
	h.reset()
	if isGRPC(contentType) {
		status = 200
		h.add("content-type", contentType)
		h.add("grpc-status", strconv.Itoa(unavailable))
	}
	p.host.Respond(status, "weir-panic", h.bytes(), nil, unavailable)
}

const unavailable = 14 // status of gRPC

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
