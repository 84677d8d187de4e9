package envoyrls

import (
	"cmp"
	"fmt"
	"slices"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/limit"
)

// Bounds on a request, far beyond what Envoy sends.
const (
	maxDescriptors = 100
	maxEntries     = 100 // of a descriptor
)

// requestError is about a field of a request that is wrong. Nothing of the request was
// applied. Over gRPC it is INVALID_ARGUMENT; where envoyproxy/ratelimit has UNKNOWN, it is
// UNKNOWN with the same text.
type requestError struct {
	Field  string // such as descriptors[1].limit
	Reason string // what it is, what is allowed

	code codes.Code // 0: INVALID_ARGUMENT
}

func (e *requestError) Error() string { return e.Field + " " + e.Reason }

// GRPCStatus is the error on the wire.
func (e *requestError) GRPCStatus() *status.Status {
	return status.New(cmp.Or(e.code, codes.InvalidArgument), e.Error())
}

var (
	errNoDomain      = &requestError{"rate limit domain", "must not be empty", codes.Unknown}
	errNoDescriptors = &requestError{"rate limit descriptor list", "must not be empty", codes.Unknown}
)

func wrong(field, reason string, args ...any) error {
	return &requestError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

// check refuses a request that cannot be decided. A descriptor without entries or with an
// empty key is accepted: no rule matches it.
func check(r *rlspb.RateLimitRequest) error {
	switch {
	case r.GetDomain() == "":
		return errNoDomain
	case len(r.Descriptors) == 0:
		return errNoDescriptors
	case len(r.Descriptors) > maxDescriptors:
		return wrong("descriptors", "has %d items, at most %d; ask in several requests", len(r.Descriptors), maxDescriptors)
	}
	for i, d := range r.Descriptors {
		switch {
		case d == nil:
			return wrong(field(i, "entries"), "is missing")
		case len(d.Entries) > maxEntries:
			return wrong(field(i, "entries"), "has %d items, at most %d", len(d.Entries), maxEntries)
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
