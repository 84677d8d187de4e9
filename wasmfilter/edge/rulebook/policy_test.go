package rulebook

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// policies are those of rules at one PoP.
func policies(t *testing.T, rules string) (*Rulebook, *Policies) {
	t.Helper()
	set := fatal.Get(read.JSON([]byte(`{"rules":[` + rules + `]}`)))(t)
	b := workers(tabletest.New(), 1)[0]
	b.Offer(2000, set.Version, 1, set.Encode())
	return b, b.InForce
}

// Each limit of a rule is a policy, with what responses and counters state of it.
func TestPolicies(t *testing.T) {
	b, ps := policies(t, `
		{"name":"a","key":[],"limit":"1000/1m","overrides":[{"name":"gold","when":{"path":"/g"},"limit":"50000/1h"},{"when":{"path":"/t"},"limit":"2/1s"}]},
		{"name":"trial","mode":"shadow","key":[],"limit":"5/500ms","consistency":"exact"},
		{"name":"pop","scope":"pop","hash":true,"key":[{"header":"x"}],"limit":"5/1m","consistency":"exact"},
		{"name":"slots","key":[],"limit":7,"algorithm":"concurrency","lease":{"ttl":"3s"}},
		{"name":"off","mode":"off","key":[],"limit":"5/1m"},
		{"name":"plan","key":[],"limit":{"count":1000,"per":"month","zone":"Nowhere/Known","anchor":15}}`) // which only a region knows
	var got []string
	for _, variants := range ps.ByRule {
		for i := range variants {
			p := &variants[i]
			if ps.ByID[uint32(p.ID)] != p || p.Key(table.Seed{1, 2}, []byte("k")).Hash == p.SharedKey().Hash || p.SharedKey().Rule != uint32(p.ID) {
				t.Errorf("%s is not found by its ID", p.Name)
			}
			if p.Lane != -1 {
				t.Errorf("%s has lane %d, which nobody gave it", p.Name, p.Lane)
			}
			if p.Counts.Decided[Allowed]++; b.CountsOf("a").Decided[Allowed] > 2 {
				t.Errorf("%s counts as rule a", p.Name)
			}
			got = append(got, fmt.Sprint(p.Name, " ", p.Item, " ", p.Period, " ", p.TTL, " ", p.Shadow, p.Local, p.Concurrency, p.Exact))
		}
	}
	for i, want := range []string{
		`a "a";q=1000;w=60 60000 0 false false false false`, `a/gold "a";q=50000;w=3600 3600000 0 false false false false`,
		`a/override-2 "a";q=2;w=1 1000 0 false false false true`, `trial "trial";q=5;w=1 500 0 true false false true`,
		`pop "pop";q=5;w=60 60000 0 false true false false`, `slots "slots";q=7;qu="concurrent-requests" 0 3000 false false true false`,
		`plan "plan";q=1000;w=2592000 2592000000 0 false false false false`,
	} {
		if len(got) != 7 || got[i] != want {
			t.Errorf("policy %d of %q, want %s", i, got, want)
		}
	}
	if n := b.CountsOf("a.override.gold").Decided[Allowed]; n != 1 || !ps.Hashes {
		t.Errorf("%d decisions of the override, a rule hashes: %v", n, ps.Hashes)
	}
}

// Limits share their counters across versions of the rules if name, override, shape and mode are the same.
func TestCountersOfPolicies(t *testing.T) {
	id := func(rules string, variant int) uint64 {
		_, ps := policies(t, rules)
		return ps.ByRule[0][variant].ID
	}
	const a = `{"name":"a","key":[],"limit":"5/1m"%s}`
	plain := id(fmt.Sprintf(a, ""), 0)
	if id(`{"name":"a","key":[],"limit":"9/1m","timeout":"1s"}`, 0) != plain {
		t.Error("another limit of the same shape has other counters")
	}
	for _, other := range []string{
		fmt.Sprintf(a, `,"mode":"shadow"`), fmt.Sprintf(a, `,"algorithm":"fixed_window"`), `{"name":"b","key":[],"limit":"5/1m"}`, `{"name":"a","key":[],"limit":"5/1h"}`,
	} {
		if id(other, 0) == plain {
			t.Errorf("%s has the counters of another rule", other)
		}
	}
	override := fmt.Sprintf(a, `,"overrides":[{"when":{"path":"/x"},"limit":"5/1m"},{"when":{"path":"/y"},"limit":"5/1m"}]`)
	if id(override, 0) != plain || id(override, 1) == plain || id(override, 1) == id(override, 2) {
		t.Error("an override shares the counters of its rule, or of another one")
	}
}

// A key may have a limit of its own, with the name of its override if that is fit for a header.
func TestOwn(t *testing.T) {
	_, ps := policies(t, `{"name":"a","key":[],"limit":"5/1m","consistency":"exact"}`)
	p := &ps.ByRule[0][0]
	for name, want := range map[string]string{"acme": "300 a/acme", "a b": "300 a", "": "300 a"} {
		g := p.Granted(&wire.Grant{Grant: lease.Grant{Status: lease.OK, Granted: 1, Limit: 300, TTL: 1 << 50}, Name: []byte(name)})
		if units, called := p.Own(p.Terms.OwnLimit(&g)); fmt.Sprint(units, " ", called) != want || g.TTL > 1<<40 {
			t.Errorf("%q: %d of %s for %d ms, want %s", name, units, called, g.TTL, want)
		}
	}
	if g := p.Granted(&wire.Grant{Grant: lease.Grant{Limit: lease.Unlimited}, Name: []byte("acme")}); g.Override != 0 {
		t.Error("a key without a limit has an override")
	}
	w := p.Named(table.Key{Text: []byte("k")}, &lease.Want{Need: 1, Waiting: 1, Want: 1 << 40})
	if w.Rule != "a" || string(w.Key) != "k" || w.Shape != p.Limit.Fingerprint() || w.Want.Want > wire.MaxUnits {
		t.Errorf("%+v", w)
	}
}
