package envoyrls

import (
	"math"
	"strconv"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir/internal/engine"
)

// usualStatuses is how many descriptors' statuses are allocated with the response.
const usualStatuses = 4

// block is a response and its parts in one piece of memory.
type block struct {
	response rlspb.RateLimitResponse
	pointers [usualStatuses]*rlspb.RateLimitResponse_DescriptorStatus
	parts    [usualStatuses]statusParts
}

type statusParts struct {
	status rlspb.RateLimitResponse_DescriptorStatus
	reset  durationpb.Duration
}

// reply makes the response, and counts the decisions in it.
func (s *Server) reply(q *query, refused bool) *rlspb.RateLimitResponse {
	b := new(block)
	r, parts := &b.response, b.parts[:]
	r.OverallCode = rlspb.RateLimitResponse_OK
	if refused {
		r.OverallCode = rlspb.RateLimitResponse_OVER_LIMIT
	}
	r.Statuses = b.pointers[:0]
	if len(q.descriptors) > len(parts) {
		parts = make([]statusParts, len(q.descriptors))
	}
	for i := range q.descriptors {
		p := &parts[i]
		s.status(q, i, p)
		r.Statuses = append(r.Statuses, &p.status)
	}
	r.ResponseHeadersToAdd = s.headers(q, r.Statuses)
	if s.cfg.Metadata {
		r.DynamicMetadata = dynamicMetadata(q)
	}
	return r
}

// status makes the status of descriptor i.
func (s *Server) status(q *query, i int, p *statusParts) {
	d := &q.descriptors[i]
	p.status.Code = rlspb.RateLimitResponse_OK
	switch {
	case d.rule == nil:
		return
	case d.rule.policy == nil: // replaced or not
		p.status.LimitRemaining = math.MaxUint32
		s.count(q, i, unlimited)
		return
	case d.replaced:
		s.count(q, i, replaced)
		return
	}
	v := &q.judgments[d.ask]
	if d.refused && d.rule.mode != shadow {
		p.status.Code = rlspb.RateLimitResponse_OVER_LIMIT
	}
	remaining := q.left(i)
	if counts := s.count(q, i, q.resultOf(d, v, remaining)); counts.hits != nil {
		counts.hits.count(q, i, remaining)
	}
	if d.refused {
		remaining = 0 // as in envoyproxy/ratelimit
	}
	if v.Degraded != engine.Sound {
		d.rule.counts.countDegraded(v.Degraded)
	}
	if !informed(v) && p.status.Code == rlspb.RateLimitResponse_OK {
		return // what is left is unknown, and 0 would be wrong
	}
	p.status.CurrentLimit = d.rule.current
	p.status.LimitRemaining = uint32(max(0, min(remaining, math.MaxUint32)))
	if !informed(v) {
		return // it is refused until the store answers, not until its window ends
	}
	p.reset.Seconds = int64(s.untilReset(d, v) / time.Second)
	p.status.DurationUntilReset = &p.reset
}

func (q *query) resultOf(d *described, v *engine.Judgment, remaining int64) result {
	capacity := d.rule.policy.Terms.Capacity
	switch {
	case d.refused && d.rule.mode == shadow:
		return shadowOver
	case d.refused:
		return over
	case d.peek():
		return peeked
	case !v.Admitted || q.free:
		return other
	case v.Degraded == engine.Sound && remaining < capacity-capacity*nearFifths/5:
		return near
	}
	return within
}

// count counts descriptor i.
func (s *Server) count(q *query, i int, r result) (counts *counts) {
	d := &q.descriptors[i]
	counts, q.name = s.metrics.of(d.rule, d.entries, q.name)
	counts.result(r)
	return counts
}

// headers makes the response headers. If they are configured, they are about the limit
// that is nearest to its end, as in envoyproxy/ratelimit: the last one that refuses the
// request, else the first of those with the least remaining, in any mode. A request that
// was decided without the store always has a header about it.
func (s *Server) headers(q *query, statuses []*rlspb.RateLimitResponse_DescriptorStatus) []*corepb.HeaderValue {
	nearest, least, degraded := -1, uint32(math.MaxUint32), engine.Sound
	for i := range q.descriptors {
		d := &q.descriptors[i]
		if d.ask < 0 {
			continue
		}
		if d.rule.mode != shadow {
			degraded = max(degraded, q.judgments[d.ask].Degraded)
		}
		if !s.cfg.Headers || statuses[i].CurrentLimit == nil {
			continue
		}
		if left := statuses[i].LimitRemaining; left < least || d.refused && d.rule.mode == enforce {
			nearest, least = i, left
		}
	}
	var headers []*corepb.HeaderValue
	add := func(name, value string) {
		headers = append(headers, &corepb.HeaderValue{Key: name, Value: value})
	}
	if nearest >= 0 {
		st := statuses[nearest]
		add("RateLimit-Limit", strconv.FormatInt(q.descriptors[nearest].rule.policy.Terms.Capacity, 10))
		add("RateLimit-Remaining", strconv.FormatUint(uint64(st.LimitRemaining), 10))
		if st.DurationUntilReset != nil {
			add("RateLimit-Reset", strconv.FormatInt(st.DurationUntilReset.Seconds, 10))
		}
	}
	if degraded != engine.Sound {
		s.metrics.hits.degraded()
		add(DegradedHeader, degraded.String())
	}
	return headers
}

// DegradedHeader is the response header of a request that was decided without the store.
// Its value is how: allow, deny, local or denied.
const DegradedHeader = "x-weir-degraded"
