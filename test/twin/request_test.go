package twin

import (
	"math/rand/v2"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// scenario is a configuration, and requests one after the other. Their domain is
// empty where it is the configuration's, which has one when it is played.
type scenario struct {
	seed     uint64
	config   []*node
	requests []*rlspb.RateLimitRequest
}

// noDomain stands for the empty domain.
const noDomain = "(none)"

func (g *grammar) request(config []*node) *rlspb.RateLimitRequest {
	r := &rlspb.RateLimitRequest{}
	if g.one(40) {
		r.Domain = "unknown"
	}
	if g.one(3) {
		r.HitsAddend = g.hits()
	}
	for range pick(g, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5) {
		r.Descriptors = append(r.Descriptors, g.descriptor(config))
		if again := pick(g, r.Descriptors...); g.one(10) && len(r.Descriptors) < 5 {
			r.Descriptors = append(r.Descriptors, again)
		}
	}
	if g.one(60) {
		switch g.IntN(3) {
		case 0:
			r.Domain = noDomain
		case 1:
			r.Descriptors = nil
		case 2:
			r.Descriptors[0].Entries = nil
		}
	}
	return r
}

func (g *grammar) descriptor(config []*node) *ratelimitpb.RateLimitDescriptor {
	entries := g.path(config)
	switch g.IntN(12) {
	case 0: // one too many
		entries = append(entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: pick(g, keys...), Value: pick(g, values...)})
	case 1: // another value
		entries[g.IntN(len(entries))].Value = pick(g, "x", "y", "xy", "z", "other", "")
	case 2: // another key
		entries[g.IntN(len(entries))].Key = pick(g, "a", "b", "c", "other")
	}
	d := &ratelimitpb.RateLimitDescriptor{Entries: entries}
	if g.one(4) {
		d.HitsAddend = wrapperspb.UInt64(uint64(g.hits()))
	}
	if g.one(8) {
		d.HitsAddend = wrapperspb.UInt64(0)
	}
	// With share_threshold such a limit counts on the counter of all values, and on one of its own there.
	if _, shared := matching(config, d); !shared && g.one(8) {
		d.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: uint32(g.IntN(15)), Unit: pick(g, typepb.RateLimitUnit_HOUR, typepb.RateLimitUnit_YEAR)}
	}
	return d
}

// hits is what a request or a descriptor costs.
func (g *grammar) hits() uint32 {
	switch g.IntN(8) {
	case 0:
		return 1
	case 1:
		return uint32(g.IntN(100))
	}
	return uint32(1 + g.IntN(6))
}

// scenarioOf is the same for the same seed.
func scenarioOf(seed uint64) scenario {
	g := &grammar{Rand: rand.New(rand.NewPCG(seed, 0))}
	s := scenario{seed: seed, config: g.config()}
	for range 10 + g.IntN(25) {
		s.requests = append(s.requests, g.request(s.config))
		for g.one(3) && len(s.requests) < 60 { // again, until its limit is met
			s.requests = append(s.requests, s.requests[len(s.requests)-1])
		}
	}
	return s
}
