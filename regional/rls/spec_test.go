package rls

import (
	"strconv"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/limit"
)

func strconvU(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

const specYAML = `
domain: d
descriptors:
  - key: user
    rate_limit: { name: per user, unit: hour, requests_per_unit: 5 }
  - key: plan
    value: gold
    rate_limit: { unit: day, requests_per_unit: 3, name: gold, replaces: [{ name: per user }] }
  - key: host
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: path, rate_limit: { unit: second, requests_per_unit: 4 } }
  - { key: nothing, rate_limit: { unit: week, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true, name: all free } }
  - { key: pass, rate_limit: { unlimited: true, replaces: [{ name: all free }] } }
  - { key: try, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q1, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q2, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: wide, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 4 } }
  - { key: file, value: "*.pdf", share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
`

// steps are requests one after the other, and the answer to each.
type steps []struct {
	request *rlspb.RateLimitRequest
	want    string
}

func (b *bench) play(t *testing.T, list steps) {
	t.Helper()
	for i, step := range list {
		if got := inShort(b.ask(step.request)); got != step.want {
			t.Errorf("step %d: %s, want %s", i+1, got, step.want)
		}
	}
}

func hits(n uint32, r *rlspb.RateLimitRequest) *rlspb.RateLimitRequest {
	r.HitsAddend = n
	return r
}

func TestSpec(t *testing.T) {
	a := func() *rlspb.RateLimitRequest { return request(of("user", "a")) }
	for name, list := range map[string]steps{
		"counts by value": {
			{a(), "OK: OK 4"}, {request(of("user", "b")), "OK: OK 4"}, {a(), "OK: OK 3"},
		},
		"the value may be empty": {{request(of("user", "")), "OK: OK 4"}, {a(), "OK: OK 4"}},
		"denied when used up, and no sooner": {
			{hits(4, a()), "OK: OK 1"}, {a(), "OK: OK 0"}, {a(), "OVER: OVER 0"}, {a(), "OVER: OVER 0"},
		},
		"a cost is charged whole or not at all": {
			{hits(3, a()), "OK: OK 2"}, {hits(3, a()), "OVER: OVER 0"}, {hits(2, a()), "OK: OK 0"},
		},
		"hits_addend of the request 0 is 1": {{hits(0, a()), "OK: OK 4"}},
		"a descriptor's own beats the request's": {
			{hits(4, request(costing(2, of("user", "a")))), "OK: OK 3"},
		},
		"a descriptor's own 0 charges nothing": {
			{request(costing(0, of("user", "a"))), "OK: OK 5"},
			{hits(9, request(costing(0, of("user", "a")))), "OK: OK 5"},
			{hits(5, a()), "OK: OK 0"},
			{request(costing(0, of("user", "a"))), "OVER: OVER 0"},
		},
		"what only asks costs nothing, however often it asks": {
			{request(costing(0, of("user", "a")), costing(0, of("user", "a"))), "OK: OK 5, OK 5"},
			{request(costing(0, of("user", "a")), of("host", "h"), costing(0, of("user", "a")), costing(0, of("user", "a"))), "OK: OK 5, OK 1, OK 5, OK 5"},
			{request(costing(0, of("try", "a")), costing(0, of("try", "a"))), "OK: OK 1, OK 1"},
			{request(costing(0, of("user", "a"))), "OK: OK 5"},
			{request(costing(0, of("try", "a"))), "OK: OK 1"},
		},
		"a question beside a charge is answered with what is left of it": {
			{request(costing(0, of("user", "a")), of("user", "a"), costing(0, of("user", "a"))), "OK: OK 5, OK 4, OK 4"},
		},
		"what only asks refuses the request, which then costs nothing": {
			{hits(5, a()), "OK: OK 0"},
			{request(of("host", "h"), costing(0, of("user", "a"))), "OVER: OK 2, OVER 0"},
			{request(of("host", "h")), "OK: OK 1"},
		},
		"no cost is too large to be refused": {
			{hits(1<<32-1, a()), "OVER: OVER 0"}, {request(costing(1<<63, of("user", "a"))), "OVER: OVER 0"}, {a(), "OK: OK 4"},
		},
		"nothing matches": {
			{request(of("nobody", "x")), "OK: OK -"},
			{request(of("path", "x")), "OK: OK -"},
			{request(of("host", "h", "path", "p", "more", "x")), "OK: OK -"},
			{request(of("plan", "silver")), "OK: OK -"},
			{request(of(), of("", "x"), of("user", "a", "", "")), "OK: OK -, OK -, OK -"},
			{&rlspb.RateLimitRequest{Domain: "elsewhere", Descriptors: request(of("user", "a")).Descriptors}, "OK: OK -"},
		},
		"only the last level's limit counts": {
			{request(of("host", "h", "path", "p")), "OK: OK 3"}, {request(of("host", "h")), "OK: OK 1"},
		},
		"statuses in the order of the request": {
			{request(of("nobody", "x"), of("host", "h"), of("free", ""), of("user", "a")), "OK: OK -, OK 1, OK 4294967295, OK 4"},
		},
		"a limit of 0 denies everything": {{request(of("nothing", "")), "OVER: OVER 0"}},
		"refused by one, charged by none": {
			{request(of("host", "h"), of("user", "a")), "OK: OK 1, OK 4"},
			{request(of("user", "a"), of("host", "h")), "OK: OK 3, OK 0"},
			{request(of("host", "h"), of("user", "a")), "OVER: OVER 0, OK 3"},
			{request(of("user", "a"), of("host", "h")), "OVER: OK 3, OVER 0"},
			{a(), "OK: OK 2"},
		},
		"the same counter twice is charged both costs or none, and answered one after the other": {
			{request(of("user", "a"), of("user", "a")), "OK: OK 4, OK 3"},
			{hits(2, request(of("user", "a"), of("user", "a"))), "OVER: OK 3, OVER 0"},
			{hits(4, request(of("user", "a"), of("user", "a"))), "OVER: OVER 0, OVER 0"},
			{request(of("user", "a"), costing(9, of("user", "a")), of("user", "a")), "OVER: OK 3, OVER 0, OVER 0"},
			{request(costing(2, of("user", "a")), of("host", "h"), of("user", "a")), "OK: OK 1, OK 1, OK 0"},
			{request(of("host", "h"), of("host", "h"), of("user", "b"), of("user", "b")), "OVER: OK 1, OVER 0, OK 5, OK 5"},
		},
		"the same counter twice, in quota or shadow mode": {
			{request(of("q2", ""), of("q2", ""), of("q2", "")), "OK: OK 1, OK 0, OVER 0"},
			{request(of("try", "x"), of("try", "x"), of("try", "x")), "OK: OK 0, OK 0, OK 0"},
			{request(costing(9, of("file", "q.pdf")), of("file", "q.pdf")), "OVER: OVER 0, OVER 0"},
			{request(costing(9, of("wide", "")), of("wide", ""), costing(0, of("wide", ""))), "OVER: OVER 0, OVER 0, OVER 0"},
			{request(costing(2, of("wide", "")), costing(9, of("wide", "")), of("wide", "")), "OK: OK 2, OVER 0, OVER 0"},
			{request(of("wide", ""), of("wide", ""), of("nothing", "")), "OVER: OK 2, OK 2, OVER 0"},
			{request(costing(4, of("try", "y")), costing(0, limited(12, typepb.RateLimitUnit_HOUR, of("try", "y")))), "OK: OK 0, OK 8"},
			{request(of("wide", ""), of("wide", "")), "OK: OK 1, OK 0"},
		},
		"two counters of one rule": {{request(of("user", "a"), of("user", "b")), "OK: OK 4, OK 4"}},
		"replaces": {
			{request(of("user", "a"), of("plan", "gold")), "OK: OK -, OK 2"},
			{request(of("plan", "gold")), "OK: OK 1"}, {a(), "OK: OK 4"},
		},
		"unlimited stays so when it is replaced": {{request(of("free", "x"), of("pass", "y"), of("user", "a")), "OK: OK 4294967295, OK 4294967295, OK 4"}},
		"shadow mode counts and refuses nothing": {
			{request(of("try", "x"), of("host", "h")), "OK: OK 0, OK 1"},
			{request(of("try", "x"), of("host", "h")), "OK: OK 0, OK 0"},
			{request(of("try", "y"), of("host", "h")), "OVER: OK 1, OVER 0"},
			{request(of("try", "y")), "OK: OK 0"},
		},
		"quota mode refuses when all of it are over": {
			{request(of("q1", ""), of("q2", "")), "OK: OK 0, OK 1"},
			{request(of("q1", ""), of("q2", "")), "OK: OVER 0, OK 0"},
			{request(of("q1", ""), of("q2", ""), of("host", "h")), "OVER: OVER 0, OVER 0, OK 2"},
			{request(of("q1", "")), "OVER: OVER 0"},
			{request(of("host", "h")), "OK: OK 1"},
		},
		"a refused request costs no quota": {
			{hits(5, a()), "OK: OK 0"}, {request(of("q2", ""), of("user", "a")), "OVER: OK 2, OVER 0"}, {request(of("q2", "")), "OK: OK 1"},
		},
		"share_threshold": {
			{request(of("file", "a.pdf")), "OK: OK 1"}, {request(of("file", "b.pdf")), "OK: OK 0"}, {request(of("file", "c.pdf")), "OVER: OVER 0"},
		},
		"a limit of the request's own": {
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("nobody", "x"))), "OK: OK 1"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("nobody", "x"))), "OK: OK 0"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("nobody", "x"))), "OVER: OVER 0"},
			{request(limited(2, typepb.RateLimitUnit_DAY, of("nobody", "x"))), "OK: OK 1"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("nobody", "y"))), "OK: OK 1"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("nobody", "x", "b", ""))), "OK: OK 1"},
		},
		"a limit of the request's own without entries": {
			{request(limited(2, typepb.RateLimitUnit_HOUR, of())), "OK: OK 1"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("", ""))), "OK: OK 1"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of())), "OK: OK 0"},
		},
		"a limit in place of a rule's counts on": {
			{hits(3, a()), "OK: OK 2"}, {request(limited(10, typepb.RateLimitUnit_HOUR, of("user", "a"))), "OK: OK 6"},
			{request(limited(1, typepb.RateLimitUnit_HOUR, of("free", "x"))), "OK: OK 0"},
			{request(limited(1, typepb.RateLimitUnit_HOUR, of("try", "x"))), "OK: OK 0"},
			{request(limited(1, typepb.RateLimitUnit_HOUR, of("try", "x"))), "OK: OK 0"},
		},
		"a limit in place of a rule's, beside it": {
			{request(of("user", "a"), limited(12, typepb.RateLimitUnit_HOUR, of("user", "a"))), "OK: OK 4, OK 10"},
			{request(costing(5, limited(12, typepb.RateLimitUnit_HOUR, of("user", "a"))), costing(0, of("user", "a"))), "OVER: OK 10, OVER 0"},
			{request(costing(0, of("user", "a")), costing(5, limited(12, typepb.RateLimitUnit_HOUR, of("user", "a")))), "OK: OK 3, OK 5"},
			{request(limited(12, typepb.RateLimitUnit_HOUR, of("user", "a")), of("user", "a")), "OVER: OK 5, OVER 0"},
			{request(of("user", "b"), costing(9, limited(12, typepb.RateLimitUnit_HOUR, of("user", "b")))), "OK: OK 4, OK 2"},
			{request(of("user", "b"), limited(12, typepb.RateLimitUnit_HOUR, of("user", "b"))), "OVER: OVER 0, OK 2"},
			{request(of("user", "b"), costing(2, limited(12, typepb.RateLimitUnit_HOUR, of("user", "b")))), "OVER: OVER 0, OVER 0"},
			{request(costing(0, of("user", "b")), of("user", "b")), "OVER: OVER 0, OVER 0"}, // 10 of 5 are used
			{hits(5, request(of("user", "d"))), "OK: OK 0"},
			{request(costing(0, of("user", "d")), of("user", "d")), "OVER: OK 0, OVER 0"},
			{request(costing(3, limited(2, typepb.RateLimitUnit_HOUR, of("user", "c"))), of("user", "c")), "OVER: OVER 0, OK 5"},
			{request(limited(2, typepb.RateLimitUnit_HOUR, of("user", "c")), of("user", "c"), limited(3, typepb.RateLimitUnit_HOUR, of("user", "c"))), "OK: OK 1, OK 3, OK 0"},
		},
		"keys that look alike when joined": {
			{request(limited(1, typepb.RateLimitUnit_HOUR, of("a", "b|c", "d", ""))), "OK: OK 0"},
			{request(limited(1, typepb.RateLimitUnit_HOUR, of("a", "b", "c|d", ""))), "OK: OK 0"},
			{request(limited(1, typepb.RateLimitUnit_HOUR, of("a|b", "c", "d", ""))), "OK: OK 0"},
		},
	} {
		t.Run(name, func(t *testing.T) { newBench(t, specYAML).play(t, list) })
	}
}

// TestCurrentLimit: what a client gets to see of a limit.
func TestCurrentLimit(t *testing.T) {
	b := newBench(t, specYAML)
	st := b.ask(request(of("user", "a"))).Statuses[0]
	if l := st.CurrentLimit; l.Name != "per user" || l.RequestsPerUnit != 5 || l.Unit != rlspb.RateLimitResponse_RateLimit_HOUR || l.UnitMultiplier != nil {
		t.Errorf("current_limit %v", l)
	}
	if d := st.DurationUntilReset.AsDuration(); d != 30*time.Minute {
		t.Errorf("duration_until_reset %v at half past, want 30m", d)
	}
	for name, r := range map[string]*rlspb.RateLimitRequest{
		"never charged": request(costing(0, of("user", "new"))), "of 0": request(of("nothing", "")),
	} {
		if d := b.ask(r).Statuses[0].DurationUntilReset.AsDuration(); d <= 0 {
			t.Errorf("duration_until_reset of a counter %s: %v", name, d)
		}
	}
	b.advance(limit.Hour / 2)
	if got := inShort(b.ask(request(of("user", "a")))); got != "OK: OK 4" {
		t.Errorf("in the next hour: %s", got)
	}
	own := limited(7, typepb.RateLimitUnit_MINUTE, of("user", "a"))
	own.Limit.UnitMultiplier = wrapperspb.UInt32(15)
	st = b.ask(request(own)).Statuses[0]
	if l := st.CurrentLimit; l.RequestsPerUnit != 7 || l.Unit != rlspb.RateLimitResponse_RateLimit_MINUTE || l.UnitMultiplier.GetValue() != 15 {
		t.Errorf("current_limit of its own %v", l)
	}
	if l := b.ask(request(limited(7, typepb.RateLimitUnit_HOUR, of("free", "x")))).Statuses[0].CurrentLimit; l.Name != "all free" {
		t.Errorf("current_limit in place of an unlimited rule %v", l)
	}
	if d := st.DurationUntilReset.AsDuration(); d != 15*time.Minute {
		t.Errorf("duration_until_reset %v, want 15m", d)
	}
}
