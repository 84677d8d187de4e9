package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/test/kit/golden"
)

func TestDefaults(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","key":["client_ip"],"limit":"5/1m"}]}`)
	want := rule.Rule{
		Name:       "a",
		Key:        []rule.Part{{{From: rule.FromClientIP, IPv6Prefix: 64}}},
		Limits:     []rule.Variant{{Limit: limit.Spec{Algorithm: limit.SlidingWindow, Count: 5, Period: limit.Minute, LeaseTTL: 10 * limit.Second}}},
		Cost:       rule.Cost{Default: 1},
		DenyStatus: 503, ExpectedPoPs: 1,
		SmallExact:    true,
		Timeout:       100 * limit.Millisecond,
		LeaseInterval: 100 * limit.Millisecond,
		Headers:       rule.Draft,
		Rejection:     rejection.Form{Status: 429, GRPCStatus: 8},
	}
	if got, want := fmt.Sprintf("%+v", *set.Rule(0)), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if set := decode(t, `{"rules":[{"name":"a","key":[],"limit":"5/1m","consistency":"optimistic"}]}`); set.Rule(0).Overdraft != 1 {
		t.Errorf("overdraft %d, want 1", set.Rule(0).Overdraft)
	}
}

// TestEncode: the compiled forms of the good files of package rulefile are read and written to the letter.
func TestEncode(t *testing.T) {
	for _, file := range golden.Files(t, "../ruleset/rulefile/testdata/good_*.golden") {
		version, compiled, _ := strings.Cut(strings.TrimSpace(string(golden.Content(t, file))), "\n")
		if set := decode(t, compiled); string(set.Encode()) != compiled || set.Version != version {
			t.Errorf("%s becomes %s, with version %s", file, set.Encode(), set.Version)
		}
	}
}

// TestSmallLimitsAreExact: a limit of few units is exact if its rule does not state a consistency, each limit of a rule on
// its own, and the compiled form keeps apart what is stated.
func TestSmallLimitsAreExact(t *testing.T) {
	for _, c := range []struct {
		fields, limit string
		want          lease.Consistency
	}{
		{"", `"50/1s"`, lease.Exact},
		{"", `"51/1d"`, lease.Leased},
		{"", `"0/1m"`, lease.Leased},
		{`"consistency":"leased",`, `"5/1m"`, lease.Leased},
		{`"consistency":"optimistic",`, `"5/1m"`, lease.Optimistic},
		{`"consistency":"exact",`, `"5000/1m"`, lease.Exact},
		{`"algorithm":"token_bucket",`, `{"count":50,"per":"1m","burst":50}`, lease.Exact},
		{`"algorithm":"token_bucket",`, `{"count":10,"per":"1m","burst":51}`, lease.Leased},
		{`"algorithm":"concurrency",`, `3`, lease.Leased},
		{`"scope":"pop",`, `"5/1m"`, lease.Leased},
		{`"scope":"global",`, `"250/1m"`, lease.Exact},
		{`"scope":"global",`, `"251/1m"`, lease.Leased},
		{`"scope":"global",`, `"250/59s"`, lease.Leased},
		{`"scope":"global",`, `"50/10s"`, lease.Exact},
	} {
		set := decode(t, fmt.Sprintf(`{"rules":[{"name":"a","key":[],%s"limit":%s}]}`, c.fields, c.limit))
		for range 2 {
			if r := set.Rule(0); r.ConsistencyOf(r.Limits[0].Limit) != c.want {
				t.Errorf("%s%s: %v, want %v", c.fields, c.limit, r.ConsistencyOf(r.Limits[0].Limit), c.want)
			}
			set = decode(t, string(set.Encode()))
		}
	}
	r := decode(t, `{"rules":[{"name":"a","key":[],"limit":"500/1m","overrides":[{"when":{"method":"PUT"},"limit":"6/1m"}]}]}`).Rule(0)
	if base, put := r.ConsistencyOf(r.Limits[0].Limit), r.ConsistencyOf(r.Limits[1].Limit); base != lease.Leased || put != lease.Exact {
		t.Errorf("%v and its override %v, want leased and exact", base, put)
	}
}

// TestAlgorithmByScope: what a limit means without an algorithm depends on who shares it, and
// the compiled form leaves out just that one.
func TestAlgorithmByScope(t *testing.T) {
	const sliding, fixed, bucket = limit.SlidingWindow, limit.FixedWindow, limit.TokenBucket
	for scope, byDefault := range map[rule.Scope]limit.Algorithm{rule.ScopePoP: sliding, rule.ScopeRegion: sliding, rule.ScopeGlobal: fixed} {
		doc := func(algorithm string) *rule.Set {
			return decode(t, fmt.Sprintf(`{"rules":[{"name":"a","key":[],"limit":"5/1m",%s"scope":%q,"overrides":[{"when":{"method":"PUT"},"limit":"6/1m"}]}]}`, algorithm, scope))
		}
		none := doc("")
		if got := none.Rule(0).Limits; got[0].Limit.Algorithm != byDefault || got[1].Limit.Algorithm != byDefault {
			t.Errorf("%v: %+v, want %v", scope, got, byDefault)
		}
		for _, stated := range []limit.Algorithm{sliding, fixed, bucket} {
			set := doc(fmt.Sprintf(`"algorithm":%q,`, stated))
			if got := set.Rule(0).Limits[0].Limit.Algorithm; got != stated {
				t.Errorf("%v, %v stated: %v", scope, stated, got)
			}
			if same := set.Version == none.Version; same != (stated == byDefault) {
				t.Errorf("%v, %v stated: %s", scope, stated, set.Encode())
			}
		}
	}
}

// TestVersionIsOfTheMeaning: however rules are written, the same rules have the same version, and others another.
func TestVersionIsOfTheMeaning(t *testing.T) {
	const head = `{"rules":[{"name":"a",`
	same := []string{
		head + `"key":["client_ip"],"limit":"5/1m","match":{"header":{"x-b":"2","x-a":"1"}}}]}`,
		head + `"limit":{"per":"60s","count":5},"algorithm":"sliding_window","scope":"region","key":[{"client_ip":{"ipv6_prefix":64}}],"match":{"header":{"X-A":{"exact":"1"},"X-B":"2"}}}]}`,
		head + `"key":["client_ip"],"limit":"5/1m","match":{"header":{"x-a":"1","x-b":"2"}},"mode":"enforce","timeout":"100ms","cost":1,"on_failure":{"action":"allow"},"lease":{"ttl":"10s"}}]}`,
		`{"client_ip":{"trusted_hops":0},` + head[1:] + `"key":[{"client_ip":{}}],"limit":"5/1m","match":{"header":{"x-a":"1","x-b":"2"}}}]}`,
	}
	version := decode(t, same[0]).Version
	for _, doc := range same {
		if got := decode(t, doc); got.Version != version {
			t.Errorf("%s\nhas the version of %s", doc, got.Encode())
		}
	}
	if len(version) != 32 {
		t.Errorf("version %q", version)
	}
	if decode(t, head+`"key":["client_ip"],"limit":"6/1m"}]}`).Version == decode(t, head+`"key":["client_ip"],"limit":"5/1m"}]}`).Version {
		t.Error("another limit has the same version")
	}
}

// TestOverrideIsNamedByWhatItIs: its place, its limit and what stands around it do not change the name of an override's
// counters; its own name or, without one, what it is for does.
func TestOverrideIsNamedByWhatItIs(t *testing.T) {
	const gold, silver = `{"when":{"header":{"x-tier":"gold"}},"limit":"50/1m"}`, `{"when":{"header":{"x-tier":"silver"}},"limit":"20/1m"}`
	names := func(overrides string) (out []uint64) {
		t.Helper()
		set := decode(t, `{"rules":[{"name":"a","key":["client_ip"],"limit":"5/1m","algorithm":"token_bucket","overrides":[`+overrides+`]}]}`)
		for v := range set.Rule(0).Limits {
			out = append(out, set.Override(0, v))
		}
		return out
	}
	alone := names(gold)
	if alone[0] != 0 || alone[1]>>63 != 1 {
		t.Errorf("names %x: want 0 for the base limit, and the highest bit for an override", alone)
	}
	// Counters outlive a release: these names never change.
	const pinned, pinnedByName = 0xe56b187051fb6a32, 0xc2bf6a5f69eb079e
	if alone[1] != pinned {
		t.Errorf("gold is %#x, and was %#x", alone[1], uint64(pinned))
	}
	if got := names(silver + "," + gold); got[2] != alone[1] || got[1] == alone[1] {
		t.Errorf("behind another: %x, alone %x", got, alone)
	}
	if got := names(`{"when":{"header":{"x-tier":"gold"}},"limit":{"count":70,"per":"1m","burst":90}}`); got[1] != alone[1] {
		t.Errorf("with another limit: %x, before %x", got, alone)
	}
	named := names(`{"name":"vip","when":{"header":{"x-tier":"gold"}},"limit":"50/1m"}`)
	if named[1] == alone[1] || named[1] != pinnedByName {
		t.Errorf("named: %#x, and was %#x", named[1], uint64(pinnedByName))
	}
	if got := names(silver + `,{"name":"vip","when":{"header":{"x-plan":"pro"}},"limit":"60/1m"}`); got[2] != named[1] {
		t.Errorf("named, for others: %x, before %x", got, named)
	}
}
