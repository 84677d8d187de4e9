package rls

import (
	"fmt"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/limit"
)

// Bounds on a request, far beyond what Envoy sends.
const (
	MaxDescriptors = 100
	MaxEntries     = 100 // of a descriptor
)

// RequestError says which field of a request is wrong and what it may be. Nothing
// of the request was applied. Over gRPC it is INVALID_ARGUMENT.
type RequestError struct {
	Field  string // such as descriptors[1].entries[0].key
	Reason string // what it is, what is allowed
}

func (e *RequestError) Error() string { return e.Field + " " + e.Reason }

// GRPCStatus is how the error travels.
func (e *RequestError) GRPCStatus() *status.Status {
	return status.New(codes.InvalidArgument, e.Error())
}

func wrong(field, reason string, args ...any) error {
	return &RequestError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

// check refuses a request that says nothing that could be decided on.
func check(r *rlspb.RateLimitRequest) error {
	switch {
	case r.GetDomain() == "":
		return wrong("domain", "is empty; write the domain of the configuration that the descriptors belong to")
	case len(r.Descriptors) == 0:
		return wrong("descriptors", "is empty; write at least one")
	case len(r.Descriptors) > MaxDescriptors:
		return wrong("descriptors", "has %d items, at most %d; ask in several requests", len(r.Descriptors), MaxDescriptors)
	}
	for i, d := range r.Descriptors {
		switch {
		case len(d.GetEntries()) == 0:
			return wrong(field(i, "entries"), "is empty; write at least one key and value")
		case len(d.Entries) > MaxEntries:
			return wrong(field(i, "entries"), "has %d items, at most %d", len(d.Entries), MaxEntries)
		case d.IsNegativeHits:
			return wrong(field(i, "is_negative_hits"), "is true; what was charged cannot be given back by this protocol")
		}
		for j, e := range d.Entries {
			if e.GetKey() == "" {
				return wrong(field(i, fmt.Sprintf("entries[%d].key", j)), "is empty; write the key that the configuration names")
			}
		}
	}
	return nil
}

// field is the path of a field of descriptor i.
func field(i int, name string) string { return fmt.Sprintf("descriptors[%d].%s", i, name) }

// hitsOf is what a descriptor costs: its own hits_addend if it has one, where 0 is
// to ask without being charged, else the request's, where 0 is 1. What is more than
// any limit can hold is taken for the most that one can.
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
