package twin

import (
	"slices"
	"strconv"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	ok        = rlspb.RateLimitResponse_OK
	overLimit = rlspb.RateLimitResponse_OVER_LIMIT
)

// exchange is a request and what envoyproxy/ratelimit made of it.
type exchange struct {
	mode     mode
	request  *rlspb.RateLimitRequest
	theirs   answer
	response *rlspb.RateLimitResponse // turned by lines into what Weir has to answer
	parts    []part
	weir     answer
	again    bool  // Weir was asked several times
	kept     bool  // rules are kept in spite of a limit in the request
	now      int64 // in seconds since 1970
}

// part is what is known of a descriptor.
type part struct {
	*ratelimitpb.RateLimitDescriptor
	rule    *node // that it matches; nil: none
	shared  bool
	charged bool // it has a counter
	charge
	*counter
	counted uint64 // what its counter had before it there
	after   uint64 // what its counter has after it here
	spent   bool   // there is nothing for a check
	back    uint64 // what of it Weir does not charge
}

// counter is what is known of a counter of envoyproxy/ratelimit.
type counter struct {
	count     uint64
	unsettled bool // Weir's last answer about it was a denial: what that took comes back
}

// describe puts together what is known, and counts.
func (x *exchange) describe(config []*node, charges []charge, counters map[string]*counter) {
	x.parts = make([]part, len(x.request.Descriptors))
	for i, d := range x.request.Descriptors {
		p := &x.parts[i]
		p.RateLimitDescriptor = d
		if x.request.Domain != "unknown" {
			p.rule, p.shared = matching(config, d)
		}
		if x.theirs.response.Statuses[i].CurrentLimit == nil {
			continue
		}
		p.charged, p.charge, charges = true, charges[0], charges[1:]
		if counters[p.key] == nil {
			counters[p.key] = new(counter)
		}
		p.counter = counters[p.key]
		p.counted = p.count
		p.count += p.hits
	}
}

// settle counts what Weir charged, and returns what it did not.
func (x *exchange) settle() []charge {
	back := x.back()
	for i := range x.parts {
		if p := &x.parts[i]; p.counter != nil {
			p.count -= p.back
			p.unsettled = x.response.OverallCode == overLimit && !x.mode.chargesRejected()
		}
	}
	return back
}

// over reports whether a descriptor is over its limit, in shadow mode too.
func (x *exchange) over(i int) bool {
	p := &x.parts[i]
	return p.charged && (p.spent || p.after > uint64(x.response.Statuses[i].GetCurrentLimit().GetRequestsPerUnit()))
}

func (x *exchange) quota(i int) bool {
	p := &x.parts[i]
	return p.charged && p.rule != nil && p.rule.QuotaMode && (p.Limit == nil || x.kept)
}

// conclude makes of the statuses what they mean for the whole.
func (x *exchange) conclude() {
	r := x.response
	r.OverallCode = ok
	quotas, spent := 0, 0
	var nearest *rlspb.RateLimitResponse_DescriptorStatus
	for i, st := range r.Statuses {
		if x.quota(i) {
			quotas++
		}
		if st.CurrentLimit != nil && (nearest == nil && st.LimitRemaining < 1<<32-1 || nearest != nil && st.LimitRemaining < nearest.LimitRemaining) {
			nearest = st
		}
		switch {
		case st.Code != overLimit:
		case x.quota(i):
			spent++
		default:
			r.OverallCode, nearest = overLimit, st
		}
	}
	if quotas > 0 && spent == quotas {
		r.OverallCode = overLimit
	}
	r.ResponseHeadersToAdd = x.headersOf(nearest)
}

func (x *exchange) headersOf(st *rlspb.RateLimitResponse_DescriptorStatus) []*corepb.HeaderValue {
	if st == nil {
		return nil
	}
	return []*corepb.HeaderValue{
		{Key: "RateLimit-Limit", Value: strconv.Itoa(int(st.CurrentLimit.RequestsPerUnit))},
		{Key: "RateLimit-Remaining", Value: strconv.Itoa(int(st.LimitRemaining))},
		{Key: "RateLimit-Reset", Value: strconv.Itoa(int(x.untilReset(st.CurrentLimit).Seconds))},
	}
}

// untilReset is when the window of a limit ends: of an hour or of a year, which no scenario outlasts.
func (x *exchange) untilReset(l *rlspb.RateLimitResponse_RateLimit) *durationpb.Duration {
	seconds := int64(hour)
	if l.Unit == rlspb.RateLimitResponse_RateLimit_YEAR {
		seconds = year
	}
	return &durationpb.Duration{Seconds: seconds - x.now%seconds}
}

// back are the charges that Weir does not make, by its answer.
func (x *exchange) back() []charge {
	var back []charge
	for i := range x.parts {
		if p := &x.parts[i]; p.back > 0 {
			back = append(back, charge{p.key, p.back})
		}
	}
	return back
}

// mayChange reports whether Weir may answer otherwise a moment later: it has not yet got back what a denied request took.
func (x *exchange) mayChange() bool {
	if x.mode.store == "memory" || x.weir.response.GetOverallCode() != overLimit || x.theirs.err != nil {
		return false
	}
	return slices.ContainsFunc(x.parts, func(p part) bool { return p.counter != nil && p.unsettled })
}
