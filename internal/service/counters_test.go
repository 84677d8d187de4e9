package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

// peek reads the only counter of a rule and a key.
func (r *region) peek(name, key string) v1.Counter {
	r.t.Helper()
	all, err := r.service.Peek(r.t.Context(), name, []byte(key))
	if err != nil || len(all) != 1 {
		r.t.Fatalf("%s for %q: %+v, %v", name, key, all, err)
	}
	return all[0]
}

// TestPeekAndReset: what was spent is seen and gone, what is on lease is seen and stays, others' keys are left alone.
func TestPeekAndReset(t *testing.T) {
	r := newRegion(t)
	r.setRules("rules: [{ name: a, key: [{ header: x-user }], limit: 100/1h, algorithm: fixed_window }]")
	if c := r.peek("a", "eve"); c.Remaining != 100 || c.Limit != 100 || c.Out != 0 || r.store.Stats().Keys != 0 {
		t.Errorf("nobody was there: %+v", c)
	}
	r.grants(want("a", "bob", 40))
	ahead := want("a", "eve", 1)
	ahead.Want.Want = 20
	held := r.grants(ahead)[0]
	if held.Granted != 20 {
		t.Fatalf("%+v", held)
	}
	c := r.peek("a", "eve")
	if c.Remaining != 80 || c.Out != 20 || c.OutMS != int64(held.TTL) || c.ResetMS != int64(limit.Hour/2/limit.Millisecond) {
		t.Errorf("%+v", c)
	}
	all, err := r.service.Reset(t.Context(), "a", []byte("eve"))
	if c.Remaining, c.ResetMS = 100, all[0].ResetMS; err != nil || len(all) != 1 || all[0] != c {
		t.Errorf("reset: %+v, %v, want %+v", all, err, c)
	}
	if g := r.grants(want("a", "eve", 100))[0]; g.Granted != 100 {
		t.Errorf("after the reset: %+v", g)
	}
	if c := r.peek("a", "bob"); c.Remaining != 60 {
		t.Errorf("another key: %+v", c)
	}
	r.advance(limit.Micros(held.TTL+1) * limit.Millisecond)
	if c := r.peek("a", "eve"); c.Out != 0 || c.OutMS != 0 {
		t.Errorf("after the last lease: %+v", c)
	}
}

// TestPeekOfABlock: it is seen with its end, counted once, and ended by a reset. A key without a limit is not blocked.
func TestPeekOfABlock(t *testing.T) {
	const rules = "rules: [{ name: a, key: [{ header: x-user }], limit: 5/1m, on_limit: { block: 1h } OVERRIDES }]"
	r := newRegion(t)
	r.setRules(strings.ReplaceAll(rules, "OVERRIDES", ""))
	for range 2 {
		r.grants(want("a", "eve", 5))
	}
	r.grants(want("a", "eve", 1))
	measure.Has(t, r.metrics.Handler(), `weir_blocks_total{rule="a"} 1`)
	if c := r.peek("a", "eve"); !c.Blocked || c.RetryAfterMS != 3_600_000 || c.Remaining != 0 {
		t.Errorf("blocked: %+v", c)
	}
	r.setRules(strings.ReplaceAll(rules, "OVERRIDES", ", overrides: [{ key: [eve], limit: unlimited }]"))
	if g := r.grants(want("a", "eve", 6))[0]; g.Granted != 6 {
		t.Errorf("without a limit: %+v", g)
	}
	r.setRules(strings.ReplaceAll(rules, "OVERRIDES", ""))
	if all, err := r.service.Reset(t.Context(), "a", []byte("eve")); err != nil || all[0].Blocked || all[0].Remaining != 5 {
		t.Errorf("reset: %+v, %v", all, err)
	}
	if g := r.grants(want("a", "eve", 5))[0]; g.Granted != 5 {
		t.Errorf("after the reset: %+v", g)
	}
}

// TestPeekNamesOverrides: by key with its end, without a limit, and by attribute where something is counted.
func TestPeekNamesOverrides(t *testing.T) {
	r := newRegion(t)
	until := limit.Micros(r.clock.Load()) + 90*limit.Second
	r.setRules(keyRules(`, { name: deal, key: [acme], limit: 20/1h, until: "` + r.at(90*limit.Second) + `" }, { name: partner, key: [globex], limit: unlimited }`))
	if c := r.peek("a", "acme"); c.Override != "deal" || !c.OwnLimit || c.Until == nil || c.Until.UnixMicro() != int64(until) || c.Limit != 20 {
		t.Errorf("%+v", c)
	}
	if c := r.peek("a", "globex"); c != (v1.Counter{Rule: "a", Override: "partner", Counted: "globex", OwnLimit: true, Unlimited: true}) {
		t.Errorf("%+v", c)
	}
	r.advance(90 * limit.Second)
	if c := r.peek("a", "acme"); c.OwnLimit || c.Override != "" || c.Limit != 10 {
		t.Errorf("after its end: %+v", c)
	}
	gold := want("a", "acme", 4)
	gold.Variant, gold.Override = 1, rulesOf(t, keyRules("")).Override(0, 1)
	r.grants(gold, want("a", "acme", 3))
	all, err := r.service.Peek(t.Context(), "a", []byte("acme"))
	if err != nil || len(all) != 2 || all[0].Remaining != 7 || all[1].Remaining != 26 || all[1].Variant != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err = r.service.Reset(t.Context(), "a", []byte("acme")); err != nil || len(all) != 1 || all[0].Remaining != 10 {
		t.Errorf("reset: %+v, %v", all, err)
	}
	if g := r.grants(gold); g[0].Remaining != 26 {
		t.Errorf("gold after the reset: %+v", g)
	}
}

// TestPeekOfARuleWithSeveralLimits: all of them are read and reset, or one by its name in force.
func TestPeekOfARuleWithSeveralLimits(t *testing.T) {
	r := newRegion(t)
	r.setRules("rules: [{ name: a, key: [client_ip], algorithm: fixed_window, consistency: exact, limits: [5/1m, 50/1d] }]")
	rules := r.service.Expanded("a")
	for _, one := range rules {
		r.grants(want(one.Name, "k", 2))
	}
	for i, step := range []struct {
		op   func(context.Context, string, []byte) ([]v1.Counter, error)
		name string
		left []int64
	}{{r.service.Peek, "a", []int64{3, 48}}, {r.service.Reset, rules[1].Name, []int64{50}}, {r.service.Peek, "a", []int64{3, 50}}, {r.service.Reset, "a", []int64{5, 50}}} {
		all, err := step.op(t.Context(), step.name, []byte("k"))
		var left []int64
		for _, c := range all {
			left = append(left, c.Remaining)
		}
		if err != nil || !slices.Equal(left, step.left) {
			t.Errorf("step %d: %d are left, want %d; %v", i, left, step.left, err)
		}
	}
}

// TestPeekOfHashedKeys: by the plain key or its hash.
func TestPeekOfHashedKeys(t *testing.T) {
	r := newRegion(t)
	secret := rule.Secret{7}
	fatal.If(t, r.service.SetSecrets([]rule.Secret{secret}))
	r.setRules(hashRules)
	hashed := rulesOf(t, hashRules).Rule(0).HashedKeyOf([]string{"acme"}, &secret)
	r.grants(want("a", string(hashed), 3))
	for _, key := range []string{"acme", string(hashed)} {
		if c := r.peek("a", key); c.Remaining != 17 || c.Counted != string(hashed) {
			t.Errorf("%q: %+v", key, c)
		}
	}
	if c := r.peek("a", `\h00112233445566778899aabbccddeeff`); c.Override != "globex" || c.Limit != 30 {
		t.Errorf("%+v", c)
	}
}

// unavailable is a store that does not answer.
type unavailable struct{ engine.Store }

func (unavailable) Acquire(_ context.Context, _ []engine.Ask, grants []lease.Grant) {
	for i := range grants {
		grants[i].Status = lease.Unavailable
	}
}

// TestPeekAndResetSayWhatIsWrong: and change nothing then.
func TestPeekAndResetSayWhatIsWrong(t *testing.T) {
	text := `
rules:
  - { name: pop, key: [client_ip], limit: 10/1h, scope: pop }
  - { name: all, key: [client_ip], limit: 10/1h, scope: global }
  - { name: one, key: [], limit: 10/1h }
  - { name: dead, key: [client_ip], limit: 10/1h }
  - { name: lifted, mode: exempt }
`
	region, aggregator := newRegion(t), newRegion(t, divides)
	silent := newRegion(t, func(c *service.Config) { c.Store = unavailable{c.Store} })
	region.setRules(text)
	aggregator.setRules(text)
	silent.setRules(text)
	for _, row := range []struct {
		at           *service.Service
		rule, key    string
		peeks, reset error
		says         string
	}{
		{region.service, "nobody", "k", service.ErrNoRule, service.ErrNoRule, `rule "nobody"`},
		{region.service, "lifted", "k", service.ErrNoRule, service.ErrNoRule, "no such rule"},
		{region.service, "pop", "k", service.ErrElsewhere, service.ErrElsewhere, "scope: pop counts in each PoP alone"},
		{region.service, "all", "k", nil, service.ErrElsewhere, "reset it there"},
		{aggregator.service, "all", "k", nil, nil, ""},
		{aggregator.service, "dead", "k", service.ErrNoRule, service.ErrNoRule, "ask a region"},
		{region.service, "one", "k", service.ErrKey, service.ErrKey, "leave the key out"},
		{region.service, "one", "", nil, nil, ""},
		{region.service, "dead", "", service.ErrKey, service.ErrKey, "give the key"},
		{region.service, "dead", strings.Repeat("k", wire.MaxKey+1), service.ErrKey, service.ErrKey, "at most"},
		{region.service, "dead", "k|l", service.ErrKey, service.ErrKey, "has 2 parts, the key of the rule 1"},
		{region.service, "dead", `k\|l\\`, nil, nil, ""},
		{region.service, "dead", `\k` + strings.Repeat("0f", 16), nil, nil, ""},
		{region.service, "dead", `\k00|`, service.ErrKey, service.ErrKey, "has 2 parts, the key of the rule 1"},
		{silent.service, "dead", "k", service.ErrUndecided, service.ErrUndecided, "try again"},
	} {
		_, peek := row.at.Peek(t.Context(), row.rule, []byte(row.key))
		_, reset := row.at.Reset(t.Context(), row.rule, []byte(row.key))
		if !errors.Is(peek, row.peeks) || !errors.Is(reset, row.reset) || reset != nil && !strings.Contains(reset.Error(), row.says) {
			t.Errorf("%s for %.9q: peek %v, reset %v", row.rule, row.key, peek, reset)
		}
	}
}

// TestPerSecond: an override by key counts for its key, named or not, until it ends.
func TestPerSecond(t *testing.T) {
	r := newRegion(t)
	r.setRules(keyRules(`, { key: [acme], limit: 7200/1h, until: "` + r.at(90*limit.Second) + `" }, { name: deal, key: [initech], limit: 3600/1h }, { name: free, key: [globex], limit: unlimited }`))
	own := r.service.PerSecond("a", "", []byte("else"))
	for key, want := range map[[2]string]float64{{"", "else"}: 10. / 3600, {"", "acme"}: 2, {"deal", "initech"}: 1, {"free", "globex"}: 0} {
		if have := r.service.PerSecond("a", key[0], []byte(key[1])); have != want {
			t.Errorf("%q: %v, want %v", key, have, want)
		}
	}
	if r.advance(90 * limit.Second); r.service.PerSecond("a", "", []byte("acme")) != own {
		t.Error("after its end")
	}
	if r.service.PerSecond("none", "", nil) != 0 {
		t.Error("a rule that is not in force")
	}
}
