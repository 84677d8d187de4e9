package twin

import (
	"fmt"
	"strconv"
	"strings"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// skew is how far the ends of a window may be apart, in seconds: the two answers are not of the same moment.
const skew = 2

// compare describes what is not the same in two answers, empty if nothing is.
func compare(want, got answer) string {
	if want.err != nil || got.err != nil {
		if w, g := status.Code(want.err), status.Code(got.err); w != g {
			return fmt.Sprintf("code %v, not %v", g, w)
		}
		return ""
	}
	w, g := proto.CloneOf(want.response), proto.CloneOf(got.response)
	var different []string
	if w.OverallCode != g.OverallCode {
		different = append(different, "overall_code")
	}
	if len(w.Statuses) != len(g.Statuses) {
		different = append(different, "statuses")
	}
	for i := range min(len(w.Statuses), len(g.Statuses)) {
		for _, what := range compareStatus(w.Statuses[i], g.Statuses[i]) {
			different = append(different, fmt.Sprintf("statuses[%d].%s", i, what))
		}
	}
	if !sameHeaders(w, g) {
		different = append(different, "response_headers_to_add")
	}
	if !sameMetadata(w, g) {
		different = append(different, "dynamic_metadata")
	}
	w.Statuses, w.ResponseHeadersToAdd, w.DynamicMetadata, w.OverallCode = nil, nil, nil, 0
	g.Statuses, g.ResponseHeadersToAdd, g.DynamicMetadata, g.OverallCode = nil, nil, nil, 0
	if !proto.Equal(w, g) {
		different = append(different, "other fields")
	}
	return strings.Join(different, ", ")
}

// compareStatus changes what it is given.
func compareStatus(w, g *rlspb.RateLimitResponse_DescriptorStatus) (different []string) {
	if w.Code != g.Code {
		different = append(different, "code")
	}
	if !proto.Equal(w.CurrentLimit, g.CurrentLimit) {
		different = append(different, "current_limit")
	}
	if w.LimitRemaining != g.LimitRemaining {
		different = append(different, "limit_remaining")
	}
	a, b := w.DurationUntilReset, g.DurationUntilReset
	if (a == nil) != (b == nil) || a.GetNanos() != b.GetNanos() || !near(a.GetSeconds(), b.GetSeconds()) {
		different = append(different, "duration_until_reset")
	}
	w.Code, w.CurrentLimit, w.LimitRemaining, w.DurationUntilReset = 0, nil, 0, nil
	g.Code, g.CurrentLimit, g.LimitRemaining, g.DurationUntilReset = 0, nil, 0, nil
	if !proto.Equal(w, g) {
		different = append(different, "other fields")
	}
	return different
}

func near(a, b int64) bool { return max(a-b, b-a) <= skew }

func sameHeaders(w, g *rlspb.RateLimitResponse) bool {
	if len(w.ResponseHeadersToAdd) != len(g.ResponseHeadersToAdd) {
		return false
	}
	for i, a := range w.ResponseHeadersToAdd {
		b := g.ResponseHeadersToAdd[i]
		if a.Key == "RateLimit-Reset" && a.Key == b.Key {
			x, err1 := strconv.ParseInt(a.Value, 10, 64)
			y, err2 := strconv.ParseInt(b.Value, 10, 64)
			if err1 == nil && err2 == nil && near(x, y) {
				continue
			}
		}
		if !proto.Equal(a, b) {
			return false
		}
	}
	return true
}

// sameMetadata overlooks spaces: the text of a limit is protobuf's own, which has one
// or two of them between fields, by what program it is in.
func sameMetadata(w, g *rlspb.RateLimitResponse) bool {
	for _, r := range []*rlspb.RateLimitResponse{w, g} {
		for _, d := range r.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
			if f := d.GetStructValue().GetFields(); f["limit"] != nil {
				f["limit"] = structpb.NewStringValue(strings.ReplaceAll(f["limit"].GetStringValue(), "  ", " "))
			}
		}
	}
	return proto.Equal(w.DynamicMetadata, g.DynamicMetadata)
}

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
