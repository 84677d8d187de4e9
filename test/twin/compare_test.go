package twin

import (
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
