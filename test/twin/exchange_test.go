package twin

import (
	"slices"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
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

// skew is how far the ends of a window may be apart, in seconds: the two answers are not of the same moment.
const skew = 2

// same reports whether two answers are the same but for what may differ: the ends of windows, and spaces in metadata.
func same(want, got answer) bool {
	if want.err != nil || got.err != nil {
		return status.Code(want.err) == status.Code(got.err)
	}
	w, g := proto.CloneOf(want.response), proto.CloneOf(got.response)
	for i := range min(len(w.Statuses), len(g.Statuses)) {
		if a, b := w.Statuses[i].DurationUntilReset, g.Statuses[i].DurationUntilReset; a != nil && b != nil && near(a.Seconds, b.Seconds) {
			b.Seconds = a.Seconds
		}
	}
	for i := range min(len(w.ResponseHeadersToAdd), len(g.ResponseHeadersToAdd)) {
		a, b := w.ResponseHeadersToAdd[i], g.ResponseHeadersToAdd[i]
		x, err1 := strconv.ParseInt(a.Value, 10, 64)
		y, err2 := strconv.ParseInt(b.Value, 10, 64)
		if a.Key == "RateLimit-Reset" && err1 == nil && err2 == nil && near(x, y) {
			b.Value = a.Value
		}
	}
	// The text of a limit is protobuf's own, which has one or two spaces between fields, by what program it is in.
	for _, r := range []*rlspb.RateLimitResponse{w, g} {
		for _, d := range r.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
			if f := d.GetStructValue().GetFields(); f["limit"] != nil {
				f["limit"] = structpb.NewStringValue(strings.ReplaceAll(f["limit"].GetStringValue(), "  ", " "))
			}
		}
	}
	return proto.Equal(w, g)
}

func near(a, b int64) bool { return max(a-b, b-a) <= skew }

// text prints an answer or a request on one line.
func text(m proto.Message) string {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return text(a.response)
}
