package envoyrls

import (
	"math"
	"strconv"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/envoyrls/metrics"
	"github.com/weirlimit/weir/internal/envoyrls/rules"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/rejection"
)

// reply makes the response, and counts the decisions in it.
func (s *Server) reply(q *query, rejected bool) *rlspb.RateLimitResponse {
	r := &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_OK}
	if rejected {
		r.OverallCode = rlspb.RateLimitResponse_OVER_LIMIT
	}
	for i := range q.Descriptors {
		r.Statuses = append(r.Statuses, s.status(q, i))
	}
	r.ResponseHeadersToAdd = s.headers(q, r.Statuses)
	if rejected {
		s.rejection(q, r)
	}
	q.show(r.Statuses)
	r.Statuses = r.Statuses[:len(q.request.Descriptors)]
	if s.cfg.Metadata {
		r.DynamicMetadata = dynamicMetadata(q)
	}
	return r
}

// show gives each descriptor of the request one status of those that it has by the rules beside
// its own: of one that rejects it, else of the one with the least remaining.
func (q *query) show(statuses []*rlspb.RateLimitResponse_DescriptorStatus) {
	for j := len(q.request.Descriptors); j < len(statuses); j++ {
		m := &q.matched[q.matched[j].shown]
		was, is := statuses[m.shown], statuses[j]
		over := is.Code != rlspb.RateLimitResponse_OK
		switch enforced := q.Descriptors[j].Mode == decision.Enforce; {
		case was.Code != rlspb.RateLimitResponse_OK || is.CurrentLimit == nil && !over:
		case over, enforced && (was.CurrentLimit == nil || is.LimitRemaining < was.LimitRemaining):
			m.shown = j
		}
	}
	for i := range q.request.Descriptors {
		statuses[i] = statuses[q.matched[i].shown]
	}
}

// status makes the status of descriptor i.
func (s *Server) status(q *query, i int) *rlspb.RateLimitResponse_DescriptorStatus {
	d, rule, v := &q.Descriptors[i], q.matched[i].rule, q.Judgment(i)
	st := &rlspb.RateLimitResponse_DescriptorStatus{Code: rlspb.RateLimitResponse_OK}
	switch {
	case rule == nil:
		return st
	case rule.Policy == nil: // replaced or not
		st.LimitRemaining = math.MaxUint32
		s.count(q, i, metrics.Unlimited)
		return st
	case v == nil:
		s.count(q, i, metrics.Replaced)
		return st
	}
	if d.Over && d.Mode != decision.Shadow {
		st.Code = rlspb.RateLimitResponse_OVER_LIMIT
	}
	remaining := q.Left(i)
	counts := s.count(q, i, q.resultOf(i, remaining))
	counts.Charge(q.charge(i, remaining))
	if d.Over {
		remaining = 0 // as in envoyproxy/ratelimit
	}
	switch {
	case !informed(v) && st.Code == rlspb.RateLimitResponse_OK: // what is left is unknown, and 0 would be wrong
		return st
	case rule.Policy.Headers == hidden:
		return st
	}
	st.CurrentLimit, st.LimitRemaining = rule.Current, uint32(max(0, min(remaining, math.MaxUint32)))
	if informed(v) { // else it is rejected until the store answers, not until its window ends
		st.DurationUntilReset = durationpb.New(s.untilReset(rule, d.Over, v))
	}
	return st
}

// resultOf is the outcome of descriptor i.
func (q *query) resultOf(i int, remaining int64) metrics.Result {
	d, v := &q.Descriptors[i], q.Judgment(i)
	capacity := d.Policy.Terms.Capacity
	switch {
	case d.Over && d.Mode == decision.Shadow:
		return metrics.ShadowOver
	case d.Over:
		return metrics.Over
	case d.Hits == 0:
		return metrics.Peeked
	case !v.Admitted || q.Free:
		return metrics.Other
	case v.Degraded == engine.Sound && capacity-remaining > metrics.NearAt(capacity):
		return metrics.Near
	}
	return metrics.Within
}

// charge is what descriptor i did to its counter. left is what the reply has as remaining.
func (q *query) charge(i int, left int64) metrics.Charge {
	d, v := &q.Descriptors[i], q.Judgment(i)
	c := metrics.Charge{
		Hits: d.Hits, Capacity: d.Policy.Terms.Capacity, Used: d.Policy.Terms.Capacity - left,
		Known: informed(v), Over: d.Over, Shadow: d.Mode == decision.Shadow,
	}
	if v.Admitted && !q.Free && !d.Over {
		c.Used -= d.Hits
	}
	return c
}

// count counts descriptor i.
func (s *Server) count(q *query, i int, r metrics.Result) (counts *metrics.Counts) {
	m := &q.matched[i]
	counts, q.name = s.metrics.Of(m.rule.Counts, m.rule.Of, m.entries, q.name)
	counts.Count(r)
	return counts
}

// headers makes the response headers. If they are configured, they are about the limit
// that is nearest to its end, as in envoyproxy/ratelimit: the last one that rejects the
// request, else the first of those with the least remaining, in any mode. A request that
// was decided without the store always has a header about it.
func (s *Server) headers(q *query, statuses []*rlspb.RateLimitResponse_DescriptorStatus) []*corepb.HeaderValue {
	nearest, least, degraded := -1, uint32(math.MaxUint32), engine.Sound
	for i := range q.Descriptors {
		d, v := &q.Descriptors[i], q.Judgment(i)
		if v == nil {
			continue
		}
		if d.Mode != decision.Shadow {
			degraded = max(degraded, v.Degraded)
		}
		if !s.cfg.Headers || statuses[i].CurrentLimit == nil {
			continue
		}
		if left := statuses[i].LimitRemaining; left < least || d.Over && d.Mode == decision.Enforce {
			nearest, least = i, left
		}
	}
	var headers []*corepb.HeaderValue
	add := func(name, value string) {
		headers = append(headers, &corepb.HeaderValue{Key: name, Value: value})
	}
	if nearest >= 0 {
		st := statuses[nearest]
		add("RateLimit-Limit", strconv.FormatInt(q.Descriptors[nearest].Policy.Terms.Capacity, 10))
		add("RateLimit-Remaining", strconv.FormatUint(uint64(st.LimitRemaining), 10))
		if st.DurationUntilReset != nil {
			add("RateLimit-Reset", strconv.FormatInt(st.DurationUntilReset.Seconds, 10))
		}
	}
	if degraded != engine.Sound {
		s.metrics.Hits.Degraded()
		add(degradedHeader, degraded.String())
	}
	return headers
}

// rejection adds to a response what the rule states that rejects it, the last one if there are several: a body, which
// Envoy takes in the place of its own, and with it the content type. Its status and that of gRPC are Envoy's to
// choose. A rule that rejects because the store does not answer states nothing.
func (s *Server) rejection(q *query, r *rlspb.RateLimitResponse) {
	for i := len(q.Descriptors) - 1; i >= 0; i-- {
		d := &q.Descriptors[i]
		if r.Statuses[i].Code != rlspb.RateLimitResponse_OVER_LIMIT {
			continue
		}
		if p := d.Policy; p.Rejection.Body != "" && informed(q.Judgment(i)) {
			wait := int64(s.untilReset(q.matched[i].rule, d.Over, q.Judgment(i)) / time.Second)
			r.RawBody = p.Rejection.AppendBody(nil, rejection.Values{Rule: p.Rule, RetryAfter: wait, Limit: p.Terms.Capacity})
			r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, &corepb.HeaderValue{Key: "content-type", Value: p.Rejection.ContentType})
		}
		return
	}
}

const hidden = rule.HeadersOff

// degradedHeader is the response header of a request that was decided without the store.
// Its value is how: allow, deny, local or denied.
const degradedHeader = "x-weir-degraded"

// informed reports whether a judgment's figures are true. While the store does not
// answer this is so only for a cached denial, or where this replica counts its share by
// itself.
func informed(v *engine.Judgment) bool {
	switch v.Degraded {
	case engine.Sound, engine.FailedDenied:
		return true
	case engine.FailedLocal:
		return v.Grant.Reset > 0 && (v.Rejected || v.Grant.Remaining > 0)
	}
	return false
}

// untilReset is the time until the limit is whole again. After a rejection by a limit whose
// units come back one by one it is the time until a retry can succeed. It is in whole
// seconds, rounded up: Envoy drops fractions, and a client must not come too early.
func (s *Server) untilReset(r *rules.Rule, over bool, v *engine.Judgment) time.Duration {
	ms := v.Grant.Reset
	trickles := r.Policy.Limit.Spec().Algorithm != limit.FixedWindow
	if over && trickles && v.Grant.RetryAfter > 0 && v.Grant.RetryAfter < never {
		ms = v.Grant.RetryAfter
	}
	until := time.Duration(ms) * time.Millisecond
	if r.Window > 0 {
		now := limit.Micros(s.cfg.Now().UnixMicro())
		start, end := r.Policy.Limit.WindowAt(now)
		if ms <= 0 {
			until = time.Duration(end-now) * time.Microsecond
		}
		until = min(until, time.Duration(end-start)*time.Microsecond)
	}
	return (until + time.Second - 1).Truncate(time.Second)
}

// never is a RetryAfter of requests that will never succeed: longer than any period.
const never = lease.Millis(400 * 24 * time.Hour / time.Millisecond)
