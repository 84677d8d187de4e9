package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/wire"
)

// at is a time of the region's clock, as rules have it.
func (r *region) at(after limit.Micros) string {
	return time.UnixMicro(r.clock.Load() + int64(after)).UTC().Format(time.RFC3339)
}

// TestUnlimitedKey: a key without a limit gets all that it wants, and is charged nothing. Another want of its group is
// decided by itself.
func TestUnlimitedKey(t *testing.T) {
	r := newRegion(t)
	r.setRules(strings.Replace(keyRules(", { key: [acme], limit: unlimited, name: partner }"), "[",
		"[{ name: b, key: [], limit: 2/1h, algorithm: fixed_window, consistency: exact }, ", 1))
	for i := range 3 {
		acme, b := want("a", "acme", 1000), want("b", "", 1)
		acme.Group, b.Group = 1, 1
		g := r.grants(acme, b)
		if g[0].Status != lease.OK || g[0].Granted != 1000 || g[0].Limit != lease.Unlimited || g[0].TTL != 10_000 {
			t.Errorf("call %d: %+v", i, g[0])
		}
		if denied := i == 2; (g[1].Status == lease.Denied) != denied {
			t.Errorf("call %d: %+v beside a key without a limit", i, g[1])
		}
	}
	if n := r.store.Stats().Keys; n != 1 {
		t.Errorf("%d counters, want that of b alone", n)
	}
	if g := r.grants(want("a", "other", 11))[0]; g.Status != lease.Denied {
		t.Errorf("another key: %+v", g)
	}
}

// TestUntil: the limit of a key ends on the second, and nothing else changes: neither the rules' version nor the counters.
func TestUntil(t *testing.T) {
	for _, limits := range []string{"20/1h", "unlimited"} {
		r := newRegion(t)
		r.setRules(keyRules(fmt.Sprintf(", { key: [acme], limit: %s, until: %q }, { key: [globex], limit: 15/1h }", limits, r.at(2*limit.Minute))))
		version, _ := r.service.RulesVersion()
		ask := func(key string, units int64) wire.Grant { return r.grants(want("a", key, units))[0] }
		ask("globex", 12)
		ask("other", 7)
		r.advance(2*limit.Minute - limit.Millisecond)
		if g := ask("acme", 16); g.Granted != 16 || limits == "unlimited" && g.TTL != 1 {
			t.Errorf("%s: in its last millisecond: %+v", limits, g)
		}
		r.advance(limit.Millisecond)
		charged := int64(0)
		if limits != "unlimited" {
			charged = 16
		}
		if g := ask("acme", 10); g.Limit != 10 || (g.Granted == 10) != (charged == 0) {
			t.Errorf("%s: after its end: %+v", limits, g)
		}
		if g := ask("globex", 3); g.Granted != 3 || g.Limit != 15 || g.Remaining != 0 {
			t.Errorf("another key with a limit: %+v", g)
		}
		if g := ask("other", 3); g.Granted != 3 || g.Limit != 10 || g.Remaining != 0 {
			t.Errorf("another key: %+v", g)
		}
		if after, _ := r.service.RulesVersion(); after != version {
			t.Error("the version of the rules changed")
		}
	}
}

// TestNames: a grant has the name of the override by key whose limit it goes by, in whatever order the wants of a call are
// decided, until that ends. Others have none, also where a call before had one in their place.
func TestNames(t *testing.T) {
	r := newRegion(t)
	r.setRules(keyRules(fmt.Sprintf(", { key: [acme], limit: 20/1h, name: contract, until: %q }, { key: [globex], limit: 20/1h, name: trial }, { key: [none], limit: 20/1h }", r.at(limit.Minute))))
	gold := want("a", "acme", 1)
	gold.Variant = 1
	gold.Override = rulesOf(t, keyRules("")).Override(0, 1)
	for call, wants := range map[string][]wire.Want{
		"contract trial": {want("a", "acme", 1), want("a", "globex", 1)},
		"  trial    contract": {want("a", "none", 1), gold, want("a", "globex", 1), want("nosuch", "acme", 1),
			{Rule: "a", Key: []byte("acme"), Want: lease.Want{Need: 2}}, want("a", "other", 1), want("a", "acme", 1)},
	} {
		for group := range uint32(2) { // the second time each want is a group, and they are decided backwards
			var names []string
			for i := range wants {
				wants[i].Group = group * uint32(100-i)
			}
			for _, g := range r.grants(wants...) {
				names = append(names, string(g.Name))
			}
			if got := strings.Join(names, " "); got != call {
				t.Errorf("group %d: names %q, want %q", group, got, call)
			}
		}
	}
	if name := r.service.Override("a", []byte("acme")); name != "contract" {
		t.Errorf("the override is called %q", name)
	}
	r.advance(limit.Minute)
	if g := r.grants(want("a", "acme", 1))[0]; len(g.Name) > 0 || r.service.Override("a", []byte("acme")) != "" {
		t.Errorf("when it has ended: %+v", g)
	}
}
