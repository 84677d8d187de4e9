package response

import (
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// Rejection is what the response to a rejected request contains. A flood gets the same one again and
// again, until a second has passed: equal ones have equal responses, unless they vary.
type Rejection struct {
	Status     int        // of HTTP; a gRPC request gets 200
	GRPCStatus int        // what a gRPC request gets instead
	Varies     bool       // the response contains more, such as other rules and the time
	Rule       *rule.Rule // that rejected; nil: before_rules

	name     string // with the override
	override string // empty: none is used
	policy   string
	limit    int64
	left     int64 // units
	seconds  int64 // until the limit has more
	retry    int64 // seconds of Retry-After; 0: there is none
	grpc     bool
	degraded bool
	failed   bool
	blocked  bool
	shed     bool // by a shed rule
}

// Reject returns the rejection of a denied request; grpc: its content type is one of gRPC.
func Reject(r *edge.Request, grpc bool) Rejection {
	f := Rejection{
		Status:     r.Status,
		GRPCStatus: 14, // UNAVAILABLE
		Varies:     !r.Alone(),
		retry:      ceilSeconds(r.RetryAfter),
		grpc:       grpc,
		degraded:   r.Degraded,
		failed:     r.Failed,
		blocked:    r.Blocked,
	}
	if g := r.Governing(rule.AnyHeaders); g != nil {
		f.Rule, f.name, f.override, f.policy = g.Rule, g.Name, g.Override(), g.Policy
		f.limit, f.left, f.seconds = g.Limit, g.Remaining, ceilSeconds(g.Reset)
		f.Varies = f.Varies || g.Rule.Headers&rule.XRateLimit != 0
		if !r.Degraded {
			f.GRPCStatus = g.Rule.Rejection.GRPCStatus
		}
	}
	if r.Shed != nil {
		f.Rule, f.name, f.shed = r.Shed, r.Shed.Name, true
	}
	return f
}

// hidden reports that the client is not told which rule it was.
func (f *Rejection) hidden() bool { return f.Rule == nil || f.Rule.Headers == rule.HeadersOff }

// body makes the body of a rejection, for gRPC the message, and returns its content type.
func (m *Maker) body(f *Rejection) (contentType string) {
	if f.Rule != nil && f.Rule.Rejection.Body != "" && !f.grpc && !f.failed {
		form := &f.Rule.Rejection
		m.Body = form.AppendBody(m.Body[:0], rejection.Values{Rule: f.Rule.Name, RetryAfter: f.retry, Limit: f.limit})
		return form.ContentType
	}
	m.problem(f)
	if f.grpc {
		return "application/grpc"
	}
	return "application/problem+json"
}

// problem makes the body of a rule that states none: a problem document (RFC 9457) of the types
// that the draft registers, or plain text for gRPC, whose message it becomes.
func (m *Maker) problem(f *Rejection) {
	kind, title := "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	if f.Status == 429 || f.Rule != nil && !f.failed && !f.shed {
		kind, title = "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	}
	if f.grpc {
		if m.Body = appendAll(m.Body[:0], title); !f.hidden() {
			m.Body = appendAll(m.Body, ": ", f.Rule.Name)
		}
		return
	}
	m.Body = appendAll(m.Body[:0], `{"type":"https://iana.org/assignments/http-problem-types#`, kind, `","title":"`, title, `","status":`)
	m.Body = strconv.AppendInt(m.Body, int64(f.Status), 10)
	if !f.hidden() && !f.shed {
		m.violated(f)
	}
	m.Body = appendAll(m.Body, "}\n")
}

// violated adds to a problem document what the headers state of the rule. Names have nothing that JSON escapes.
func (m *Maker) violated(f *Rejection) {
	name := f.Rule.Name
	m.Body = appendAll(m.Body, `,"violated-policies":["`, name, `"],"rule":"`, name)
	if f.override != "" {
		m.Body = appendAll(m.Body, `","override":"`, f.override)
	}
	m.Body = strconv.AppendQuote(appendAll(m.Body, `","policy":`), f.policy)
	m.Body = strconv.AppendInt(appendAll(m.Body, `,"remaining":`), f.left, 10)
	if f.retry > 0 {
		m.Body = strconv.AppendInt(appendAll(m.Body, `,"retry-after":`), f.retry, 10)
	}
}
