package envoyrls

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirlimit/weir/internal/limit"
)

// maxItems bounds the descriptors of a request, and the entries of each: far beyond what
// Envoy sends.
const maxItems = 100

// call receives a request of gRPC and answers it.
func (s *Server) call(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := incoming{room: &s.room}
	defer func() { s.room.Add(in.bytes) }()
	err := receive(&in)
	if err == nil {
		return s.ShouldRateLimit(ctx, &in.request)
	}
	if code := status.Code(err); code != codes.Canceled && code != codes.DeadlineExceeded { // the client still waits
		s.metrics.Requests.WithLabelValues("unread").Inc()
		if s.unread.Now() {
			s.cfg.Log.Warn("rls: request cannot be read; Envoy admits it unless failure_mode_deny is true", "error", err)
		}
	}
	return nil, err
}

// incoming is where the codec puts a request.
type incoming struct {
	request rlspb.RateLimitRequest
	room    *atomic.Int64
	bytes   int64 // taken from room
}

// codec is gRPC's codec of protobuf, except for requests.
type codec struct{ encoding.CodecV2 }

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	in.bytes = int64(data.Len())
	if in.room.Add(-in.bytes) < 0 {
		return fmt.Errorf("requests in flight have more than %d bytes", maxInFlight)
	}
	if in.bytes <= fewBytes && c.CodecV2.Unmarshal(data, &in.request) == nil {
		return nil
	}
	in.request.Reset()
	return decode(data.Materialize(), in.request.ProtoReflect())
}

// decode decodes b into m. Unlike proto.Unmarshal it accepts text that is not UTF-8, as
// Envoy sends what its clients send, and it ends where a list has more than maxItems.
func decode(b []byte, m protoreflect.Message) error {
	var rest []byte // for proto.Unmarshal
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeField(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		_, _, head := protowire.ConsumeTag(b)
		value, _ := protowire.ConsumeBytes(b[head:])
		switch field := m.Descriptor().Fields().ByNumber(number); {
		case field == nil || kind != protowire.BytesType || field.Kind() != protoreflect.StringKind && !field.IsList():
			rest = append(rest, b[:size]...)
		case !field.IsList():
			m.Set(field, protoreflect.ValueOfString(string(value)))
		case m.Get(field).List().Len() <= maxItems:
			if err := decode(value, m.Mutable(field).List().AppendMutable().Message()); err != nil {
				return err
			}
		default:
			return nil // check rejects it
		}
		b = b[size:]
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, m.Interface())
}

// Errors with the code and the text of envoyproxy/ratelimit.
var (
	errNoDomain      = status.Error(codes.Unknown, "rate limit domain must not be empty")
	errNoDescriptors = status.Error(codes.Unknown, "rate limit descriptor list must not be empty")
)

// wrong is about a field of a request that is wrong, such as descriptors[1].limit. Nothing of the request was applied.
func wrong(field, reason string, args ...any) error {
	return status.Error(codes.InvalidArgument, field+" "+fmt.Sprintf(reason, args...))
}

// check rejects a request that cannot be decided. A descriptor without entries or with an
// empty key is accepted: no rule matches it.
func check(r *rlspb.RateLimitRequest) error {
	switch {
	case r.GetDomain() == "":
		return errNoDomain
	case len(r.Descriptors) == 0:
		return errNoDescriptors
	case len(r.Descriptors) > maxItems:
		return wrong("descriptors", "has more than %d items; ask in several requests", maxItems)
	}
	for i, d := range r.Descriptors {
		switch {
		case d == nil:
			return wrong(field(i, "entries"), "is missing")
		case len(d.Entries) > maxItems:
			return wrong(field(i, "entries"), "has more than %d items", maxItems)
		case d.IsNegativeHits:
			return wrong(field(i, "is_negative_hits"), "is true; what was charged cannot be given back by this protocol")
		case slices.Contains(d.Entries, nil):
			return wrong(field(i, "entries"), "has one that is missing")
		}
	}
	return nil
}

// field is the path of a field of descriptor i.
func field(i int, name string) string { return fmt.Sprintf("descriptors[%d].%s", i, name) }

// hitsOf is the cost of a descriptor: its own hits_addend if it has one, where 0 is a
// peek, else the request's, where 0 means 1. It is at most the largest limit.
func hitsOf(r *rlspb.RateLimitRequest, d *ratelimitpb.RateLimitDescriptor) int64 {
	hits := uint64(r.HitsAddend)
	switch {
	case d.HitsAddend != nil:
		hits = d.HitsAddend.Value
	case hits == 0:
		hits = 1
	}
	return int64(min(hits, uint64(limit.MaxCount)))
}
