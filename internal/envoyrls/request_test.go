package envoyrls

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/limit"
)

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// TestBadRequests: each names the field, and nothing of it is charged.
func TestBadRequests(t *testing.T) {
	b := newBench(t, specYAML)
	negative := of("user", "a")
	negative.IsNegativeHits = true
	long := limited(1, typepb.RateLimitUnit_YEAR, of("user", "a"))
	long.Limit.UnitMultiplier = wrapperspb.UInt32(2)
	longest := limited(1, typepb.RateLimitUnit_YEAR, of("user", "a"))
	longest.Limit.UnitMultiplier = wrapperspb.UInt32(1<<32 - 1)
	for want, r := range map[string]*rlspb.RateLimitRequest{
		"descriptors has 101 items, at most 100":                     request(make([]*ratelimitpb.RateLimitDescriptor, 101)...),
		"descriptors[0].entries is missing":                          request(nil),
		"descriptors[0].entries has one that is":                     request(&ratelimitpb.RateLimitDescriptor{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{nil}}),
		"descriptors[0].entries has 200 items":                       request(of(make([]string, 400)...)),
		"descriptors[0].is_negative_hits is true":                    request(negative, of("user", "a")),
		"descriptors[1].limit unit is UNKNOWN":                       request(of("user", "a"), limited(1, 0, of("user", "b"))),
		"descriptors[1].limit unit is 8":                             request(of("user", "a"), limited(1, 8, of("user", "b"))),
		"descriptors[0].limit unit_multiplier makes":                 request(long),
		"limit unit_multiplier makes a period of more than 366 days": request(of("user", "a"), longest),
	} {
		_, err := b.ShouldRateLimit(t.Context(), r)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want invalid argument: %s", err, want)
		}
	}
	for want, r := range map[string]*rlspb.RateLimitRequest{ // in the words of envoyproxy/ratelimit
		"rate limit domain must not be empty":          {Descriptors: request(of("user", "a")).Descriptors},
		"rate limit descriptor list must not be empty": request(),
	} {
		if _, err := b.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.Unknown || status.Convert(err).Message() != want {
			t.Errorf("%v, want unknown: %s", err, want)
		}
	}
	b.play(t, steps{{request(of("user", "a"), of("user", "b")), "OK: OK 4, OK 4"}})
	if _, err := newBench(t, "").ShouldRateLimit(t.Context(), request(of("user", "a"))); status.Code(err) != codes.Unavailable {
		t.Errorf("without configuration: %v, want unavailable", err)
	}
}

// twin is a naive service for rules that enforce, of one window.
type twin struct {
	limits map[string]int64
	spent  map[string]int64
}

// decide charges all or none; two descriptors of a counter are one.
func (w *twin) decide(r *rlspb.RateLimitRequest) (over bool) {
	needs := map[string]int64{}
	for _, d := range r.Descriptors {
		if _, ok := w.limits[d.Entries[0].Key]; ok {
			hits := max(int64(r.HitsAddend), 1)
			if d.HitsAddend != nil {
				hits = int64(d.HitsAddend.Value)
			}
			name := d.Entries[0].Key + "=" + d.Entries[0].Value
			if hits == 0 {
				over = over || w.spent[name] >= w.limits[d.Entries[0].Key]
				continue
			}
			needs[name] += hits
		}
	}
	for name, need := range needs {
		key, _, _ := strings.Cut(name, "=")
		over = over || w.spent[name]+need > w.limits[key]
	}
	if !over {
		for name, need := range needs {
			w.spent[name] += need
		}
	}
	return over
}

// TestAllOrNone compares random requests with the naive twin: what is refused is
// charged nowhere.
func TestAllOrNone(t *testing.T) {
	const yaml = `
domain: d
descriptors:
  - { key: a, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: b, rate_limit: { unit: day, requests_per_unit: 10 } }
  - { key: c, rate_limit: { unit: hour, requests_per_unit: 40 } }
`
	b := newBench(t, yaml)
	rapid.Check(t, func(rt *rapid.T) {
		b.advance(2 * limit.Day) // all windows are over
		w := &twin{limits: map[string]int64{"a": 3, "b": 10, "c": 40}, spent: map[string]int64{}}
		descriptor := rapid.Custom(func(rt *rapid.T) *ratelimitpb.RateLimitDescriptor {
			d := of(rapid.SampledFrom([]string{"a", "b", "c", "none"}).Draw(rt, "key"), rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "value"))
			if rapid.IntRange(0, 3).Draw(rt, "own") == 0 {
				d = costing(rapid.Uint64Range(0, 4).Draw(rt, "hits"), d)
			}
			return d
		})
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			r := hits(rapid.Uint32Range(0, 3).Draw(rt, "addend"), request(rapid.SliceOfN(descriptor, 1, 4).Draw(rt, "descriptors")...))
			want := w.decide(r)
			if got := b.ask(r).OverallCode == rlspb.RateLimitResponse_OVER_LIMIT; got != want {
				rt.Fatalf("%v: over %v, want %v; spent %v", r, got, want, w.spent)
			}
		}
	})
}
