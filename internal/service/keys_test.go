package service_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// keyRules is a rule of 10 an hour with overrides.
func keyRules(overrides string) string {
	return `rules: [{ name: a, key: [{ header: x-user }], limit: 10/1h, algorithm: fixed_window, consistency: exact,
		overrides: [{ when: { header: { x-tier: gold } }, limit: 30/1h }` + overrides + "] }]\n"
}

// manyKeys is a rule with so many limits of single keys, of a few sizes.
func manyKeys(t testing.TB, n int) *rule.Set {
	per := func(count int) limit.Spec { return limit.Spec{Count: int64(count), Period: limit.Hour} }
	r := rule.Rule{Name: "a", Key: []rule.Part{{{From: rule.FromHeader, Name: "x-user"}}}, Limits: []rule.Variant{{Limit: per(10)}}}
	for i := range n {
		r.Keys = append(r.Keys, rule.KeyLimit{Key: []string{fmt.Sprintf("customer-%d", i)}, Limit: per(20 + i%50), Until: limit.Micros(4e9+i) * limit.Second, Name: fmt.Sprintf("contract-%d", i)})
	}
	return fatal.Get(checktest.New([]rule.Rule{r}))(t)
}

// TestKeyLimitsAreSmall: 100,000 of them take less than 100 bytes each while rules are in force, and
// finding one takes no memory.
func TestKeyLimitsAreSmall(t *testing.T) {
	const n = 100_000
	s := service.NewService(service.Config{})
	before := heap()
	fatal.If(t, s.SetRules(manyKeys(t, n)))
	size := float64(heap()-before) / n
	t.Logf("%.0f bytes each", size)
	if size > 100 {
		t.Errorf("%.0f bytes each, want at most 100", size)
	}
	key := []byte("customer-99999")
	if p := s.Policy("a", 0, key); p.Limit.Spec().Count != 20+99999%50 {
		t.Errorf("%s has %d", key, p.Limit.Spec().Count)
	}
	if n := testing.AllocsPerRun(100, func() { s.Policy("a", 0, key) }); n > 0 {
		t.Errorf("%v allocations to find a limit", n)
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const hashRules = `
rules:
  - name: a
    key: [{ header: x-key }]
    hash: true
    limit: 10/1h
    algorithm: fixed_window
    consistency: exact
    overrides:
      - { key: [acme], limit: 20/1h }
      - { name: globex, hash: "00112233445566778899aabbccddeeff", limit: 30/1h }
`

// TestHash: without a secret rules that hash keys are rejected, and those in force stay. Limits of single keys hold under
// each secret; holders get the first one, and only with the rules.
func TestHash(t *testing.T) {
	r := newRegion(t)
	before, _ := r.service.RulesVersion()
	set := rulesOf(t, hashRules)
	if err := r.service.SetRules(set); err == nil || !strings.Contains(err.Error(), "rule a: hash: true") || !strings.Contains(err.Error(), "--key-secrets") {
		t.Fatalf("without a secret: %v", err)
	}
	if after, _ := r.service.RulesVersion(); after != before {
		t.Error("rules that were rejected replaced others")
	}
	client := r.client()
	secret := func(have uint64) []byte {
		answer := fatal.Get(client.Rules(t.Context(), connect.NewRequest(&quotav1.RulesRequest{Protocol: 1, ProtocolMax: 2, HaveSecret: have})))(t)
		return answer.Msg.GetSecret()
	}
	old, fresh := rule.Secret{1}, rule.Secret{2}
	if err := r.service.SetSecrets([]rule.Secret{old}); err != nil || secret(0) != nil {
		t.Errorf("%v; a region whose rules hash no keys hands out a secret", err)
	}
	fatal.If(t, r.service.SetRules(set))
	if !bytes.Equal(secret(0), old[:]) || secret(old.Fingerprint()) != nil || !bytes.Equal(secret(fresh.Fingerprint()), old[:]) {
		t.Error("holders do not get the secret, or again")
	}
	limit := func(key []byte) int64 { return r.grants(want("a", string(key), 1))[0].Limit }
	of := func(value string, s rule.Secret) []byte { return set.Rule(0).HashedKeyOf([]string{value}, &s) }
	check := func(what string, want ...int64) {
		t.Helper()
		for i, key := range [][]byte{of("acme", old), of("acme", fresh), of("other", old), []byte("acme"), []byte(`\h00112233445566778899aabbccddeeff`)} {
			if got := limit(key); got != want[i] {
				t.Errorf("%s: the limit of %s is %d, want %d", what, key, got, want[i])
			}
		}
	}
	check("one secret", 20, 10, 10, 10, 30)
	if err := r.service.SetSecrets([]rule.Secret{fresh, old}); err != nil || !bytes.Equal(secret(old.Fingerprint()), fresh[:]) {
		t.Errorf("a rotation: %v, secret %x", err, secret(0))
	}
	check("two secrets", 20, 20, 10, 10, 30)
	if err := r.service.SetSecrets([]rule.Secret{fresh}); err != nil {
		t.Error(err)
	}
	check("the new secret alone", 10, 20, 10, 10, 30)
	if text := string(set.Encode()); strings.Contains(text, "acme") || strings.Contains(text, "globex") {
		t.Errorf("PoPs get keys in plain: %s", text)
	}
}

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
