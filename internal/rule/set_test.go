package rule_test

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/refusal"
)

func TestDefaults(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","key":["client_ip"],"limit":"5/1m"}]}`)
	want := rule.Rule{
		Name:       "a",
		Key:        []rule.Part{{{From: rule.FromClientIP, IPv6Prefix: 64}}},
		Limits:     []rule.Variant{{Limit: limit.Spec{Algorithm: limit.SlidingWindow, Count: 5, Period: limit.Minute, LeaseTTL: 10 * limit.Second}}},
		Cost:       rule.Cost{Default: 1},
		DenyStatus: 503, ExpectedHolders: 1,
		Timeout:       100 * limit.Millisecond,
		LeaseInterval: 100 * limit.Millisecond,
		Headers:       rule.Draft,
		Refusal:       refusal.Form{Status: 429, GRPCStatus: 8},
	}
	if got, want := fmt.Sprintf("%+v", *set.Rule(0)), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if set := decode(t, `{"rules":[{"name":"a","key":[],"limit":"5/1m","consistency":"optimistic"}]}`); set.Rule(0).Overdraft != 1 {
		t.Errorf("overdraft %d, want 1", set.Rule(0).Overdraft)
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

// TestVersionIsOfTheMeaning: however rules are written, the same rules have the
// same version, and others another.
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
