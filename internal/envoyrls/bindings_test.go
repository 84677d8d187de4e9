package envoyrls

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const boundRules = `
rules:
  - { name: per-user, key: [{ header: x-user }], limit: 3/1h, algorithm: sliding_window, consistency: exact }
  - { name: per-page, key: [{ header: x-user }, path], limit: { count: 2, per: 15m }, algorithm: sliding_log, consistency: exact }
  - { name: quiet, key: [], limit: 1/1h, algorithm: fixed_window, consistency: exact, mode: shadow }
  - { name: unused, key: [], limit: 1/1h, mode: "off" }
  - { name: upload, key: [], limit: 2, algorithm: concurrency }
  - { name: per-client, key: [client_ip, path], limit: 3/1h, consistency: exact }
  - { name: plan, key: [{ header: x-user }], limit: { count: 3, per: month, zone: Europe/Berlin, anchor: 4 }, consistency: exact }
`

const boundTo = `
bindings:
  - { domain: d, descriptor: [{ key: user }], rule: per-user }
  - { domain: d, descriptor: [{ key: user }, { key: plan, value: gold }], rule: per-user }
  - { domain: d, descriptor: [{ key: user }, { key: plan, value: gold }, { key: path }], rule: per-page }
  - { domain: d, descriptor: [{ key: remote_address }, { key: path }], rule: per-client }
  - { domain: d, descriptor: [{ key: everything, value: x }], rule: quiet }
  - { domain: d, descriptor: [{ key: user, value: zoe }], unbound: true }
  - { domain: only-bound, descriptor: [{ key: "off", value: x }], rule: unused }
  - { domain: d, descriptor: [{ key: subscriber }], rule: plan }
`

func TestBindings(t *testing.T) {
	b := newBench(t, specYAML)
	fatal.If(t, b.bindTo(boundRules, boundTo))
	b.play(t, steps{
		{request(of("user", "a")), "OK: OK 2"},
		{request(of("user", "a", "plan", "gold")), "OK: OK 1"}, // the same counter
		{request(of("user", "a", "plan", "silver")), "OK: OK -"},
		{request(of("user", "")), "OK: OK 4"}, // not bound: the configuration's
		{request(of("user", "zoe")), "OK: OK 4"},
		{request(of("user", "a|b", "plan", "gold", "path", "/c")), "OK: OK 1"},
		{request(of("user", "a", "plan", "gold", "path", "b|/c")), "OK: OK 1"},
		{request(of("user", "a"), of("host", "h")), "OK: OK 0, OK 1"},
		{request(of("user", "a"), of("host", "h")), "OVER: OVER 0, OK 1"},
		{request(of("everything", "x")), "OK: OK 0"},
		{request(of("everything", "x")), "OK: OK 0"},
		{&rlspb.RateLimitRequest{Domain: "only-bound", Descriptors: request(of("off", "x")).Descriptors}, "OK: OK -"},
	})
	if l := b.ask(request(of("user", "x", "plan", "gold", "path", "/"))).Statuses[0].CurrentLimit; l.Name != "per-page" ||
		l.Unit != rlspb.RateLimitResponse_RateLimit_MINUTE || l.UnitMultiplier.GetValue() != 15 || l.RequestsPerUnit != 2 {
		t.Errorf("current_limit %v", l)
	}
	// What is stated of a month is its end by the clock of its zone, also where it has 31 days.
	until := time.Date(2024, 11, 3, 23, 0, 0, 0, time.UTC).Sub(time.UnixMicro(b.clock.Load())) // begun 2024-10-03T22:00Z
	for i, r := range []*rlspb.RateLimitRequest{request(costing(0, of("subscriber", "new"))), request(of("subscriber", "a")), hits(9, request(of("subscriber", "a")))} {
		st := b.ask(r).Statuses[0]
		if got := st.DurationUntilReset.AsDuration(); got != until || st.CurrentLimit.GetUnit() != rlspb.RateLimitResponse_RateLimit_MONTH {
			t.Errorf("request %d: %v, want %v in a month", i, st, until)
		}
	}
	b.has(`weir_rls_unmatched_total{missing="binding"} 1`) // the rule that is off
	// What cannot be bound changes nothing, and a binding follows its rule.
	err := b.bindTo(strings.Replace(boundRules, "3/1h", "9/1h", 1), "bindings:\n- { domain: d, descriptor: [{ key: user }], rule: nosuch }\n- { domain: d, descriptor: [{ key: file }], rule: upload }\n")
	if err == nil || strings.Count(err.Error(), "bindings.yaml:") != 2 {
		t.Errorf("two that cannot be: %v", err)
	}
	b.play(t, steps{{request(of("user", "new")), "OK: OK 8"}})
}

// TestBoundCounterIsThePoPs: what a PoP spends and what a client of this service spends is one count.
func TestBoundCounterIsThePoPs(t *testing.T) {
	b := newBench(t, "")
	fatal.If(t, b.bindTo(boundRules, boundTo))
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		rule       string
		descriptor []string
		key        string
	}{
		{"per-user", []string{"user", "ann"}, "ann"},
		{"per-page", []string{"user", `a|b\c`, "plan", "gold", "path", "/p"}, `a\|b\\c|/p`},
		{"per-client", []string{"remote_address", "2001:db8:0:7:8:9:a:b", "path", "/p?q=1"}, `2001:db8:0:7::/64|/p`},
		{"per-client", []string{"remote_address", "192.0.2.7", "path", "/"}, `192.0.2.7|/`},
		{"per-client", []string{"remote_address", "192.0.2.7", "path", "/" + long[:150]}, string(rule.ShortKey([]byte("192.0.2.7|/" + long[:150])))},
	} {
		ask := engine.Ask{Policy: b.service.Policy(c.rule, 0, nil), Key: []byte(c.key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
		grants := make([]lease.Grant, 1)
		b.store.Acquire(t.Context(), []engine.Ask{ask}, grants)
		left := ask.Policy.Limit.Spec().Count - 2
		if got := b.ask(request(of(c.descriptor...))).Statuses[0].LimitRemaining; int64(got) != left {
			t.Errorf("%s: %d are left after one of each, want %d", c.rule, got, left)
		}
	}
	b.ask(request(of("user", long)))
	b.play(t, steps{{request(of("user", long[:299]+"y")), "OK: OK 2"}, {request(of("user", long)), "OK: OK 1"}})
}

// TestBoundKeyHasALimitOfItsOwn: a bound descriptor goes by the limit of its key.
func TestBoundKeyHasALimitOfItsOwn(t *testing.T) {
	b := newBench(t, "")
	own := strings.Replace(boundRules, "limit: 3/1h,", "limit: 3/1h, overrides: [{ key: [acme], limit: 9/1h }],", 1)
	fatal.If(t, b.bindTo(own, boundTo))
	b.play(t, steps{{request(of("user", "acme")), "OK: OK 8"}, {request(of("user", "a")), "OK: OK 2"}, {request(of("user", "acme"), of("user", "a")), "OK: OK 7, OK 1"}})
	for name, stated := range map[string]string{"per-user": "", "per-user/contract": ", name: contract"} {
		b.setRules(strings.Replace(own, "limit: 9/1h", "limit: 9/1h"+stated, 1))
		if got := b.ask(request(of("user", "acme"))).Statuses[0].CurrentLimit; got.Name != name || got.RequestsPerUnit != 9 {
			t.Errorf("the limit of acme is reported as %v, want 9 of %s", got, name)
		}
	}
	b.setRules(strings.Replace(own, "limit: 9/1h", "limit: unlimited", 1))
	b.play(t, steps{{request(of("user", "acme")), "OK: OK 4294967295"}})
	b.setRules(boundRules)
	b.play(t, steps{{request(of("user", "acme")), "OVER: OVER 0"}})
}

// TestBoundRuleGoes: when the rule of a binding is taken away, a line of the log states that it limits nothing.
func TestBoundRuleGoes(t *testing.T) {
	var logged bytes.Buffer
	b := newBench(t, "", func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	fatal.If(t, b.bindTo(boundRules, boundTo))
	for _, c := range []struct {
		old, fresh string
		unbound    string
		message    string // of one binding
	}{
		{"", "", "1", ""}, // unused is off
		{"name: per-user", "name: other", "3", `bindings.yaml:3:53: rule: rule \"per-user\" is not in the rules file`},
		{"limit: 3/1h, algorithm: sliding_window", "limit: 3, algorithm: concurrency", "3", `rule \"per-user\" limits concurrency`},
		{"algorithm: sliding_log,", `algorithm: sliding_log, mode: "off",`, "2", ""},
		{"", "", "1", ""},
	} {
		logged.Reset()
		b.setRules(strings.Replace(boundRules, c.old, c.fresh, 1))
		b.RulesChanged()
		if !b.metric("weir_ratelimit_bindings_unbound "+c.unbound) || !strings.Contains(logged.String(), c.message) || (c.message == "") != (logged.Len() == 0) {
			t.Errorf("with %s: want %s unbound; logged %s", c.fresh, c.unbound, logged.String())
		}
	}
}

// What a bound rule states for rejections is in the response as far as the protocol has a place for it; of a hidden one
// there is nothing.
func TestBoundRuleStatesItsRejection(t *testing.T) {
	b := newBench(t, "", func(c *Config) { c.Headers = true })
	const form = "limit: 3/1h, rejection: { status: 403, body: '{\"rule\":\"{rule}\",\"limit\":{limit},\"wait\":{retry_after}}', content_type: application/json },"
	fatal.If(t, b.bindTo(strings.Replace(boundRules, "limit: 3/1h,", form, 1), boundTo))
	rejected := func() *rlspb.RateLimitResponse {
		t.Helper()
		for range 4 {
			if r := b.ask(request(of("user", "a"))); r.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT {
				return r
			}
		}
		t.Fatal("nothing is rejected")
		return nil
	}
	r := rejected()
	headers := map[string]string{}
	for _, h := range r.ResponseHeadersToAdd {
		headers[h.Key] = h.Value
	}
	if want := `{"rule":"per-user","limit":3,"wait":` + headers["RateLimit-Reset"] + `}`; string(r.RawBody) != want || headers["content-type"] != "application/json" {
		t.Errorf("body %s, want %s; headers %v", r.RawBody, want, headers)
	}
	if r := b.ask(request(of("user", "b"))); r.RawBody != nil {
		t.Errorf("admitted: %v", r)
	}
	b.setRules(strings.Replace(boundRules, "limit: 3/1h,", "limit: 3/1h, headers: off, rejection: { body: No, content_type: text/plain },", 1))
	if r := rejected(); string(r.RawBody) != "No" || r.Statuses[0].CurrentLimit != nil || r.Statuses[0].DurationUntilReset != nil ||
		len(r.ResponseHeadersToAdd) != 1 || strings.Contains(r.String(), "per-user") {
		t.Errorf("hidden: %v", r)
	}
	b.setRules(boundRules)
	if r := rejected(); r.RawBody != nil || r.Statuses[0].CurrentLimit.GetName() != "per-user" {
		t.Errorf("a rule that states nothing: %v", r)
	}
}

// TestBoundWindows: a descriptor that is bound to a rule with several windows counts on all of
// them or, if one rejects it, on none; its status is that of the window that decides.
func TestBoundWindows(t *testing.T) {
	const windows = `
rules:
  - name: login
    key: [{ header: x-user }]
    limits: [3/1h, 5/1d]
    algorithm: fixed_window
    consistency: exact
    overrides:
      - { key: [vip], limits: [4/1h, 500/1d] }
`
	b := newBench(t, "", func(c *Config) { c.Metadata = true })
	fatal.If(t, b.bindTo(windows, `
bindings:
  - { domain: d, descriptor: [{ key: user }], rule: login }
  - { domain: d, descriptor: [{ key: alone }], rule: login@1d }
`))
	b.play(t, steps{
		{request(of("user", "a")), "OK: OK 2"},
		{request(of("user", "a")), "OK: OK 1"},
		{request(of("user", "a")), "OK: OK 0"},
		{request(of("user", "a")), "OVER: OVER 0"},
		{request(of("user", "vip")), "OK: OK 3"},
		{request(of("alone", "a")), "OK: OK 1"}, // of the day; what the hour rejected is not counted
	})
	b.advance(limit.Hour)
	b.play(t, steps{
		{request(of("user", "a"), of("user", "b")), "OK: OK 0, OK 2"},
		{request(of("user", "a"), of("user", "b")), "OVER: OVER 0, OK 2"},
	})
	response := b.ask(request(of("user", "a")))
	if l := response.Statuses[0].CurrentLimit; l.Name != "login@1d" || l.Unit != rlspb.RateLimitResponse_RateLimit_DAY || l.RequestsPerUnit != 5 {
		t.Errorf("rejected by %v", l)
	}
	descriptors := response.DynamicMetadata.Fields["descriptors"].GetListValue().Values
	if got := descriptors[0].GetStructValue().Fields["rule"].GetStringValue(); len(descriptors) != 1 || got != "login@1d" {
		t.Errorf("metadata of %d descriptors names %s", len(descriptors), got)
	}
	b.setRules(strings.ReplaceAll(windows, "5/1d", "100/1d"))
	b.play(t, steps{{request(of("user", "a")), "OK: OK 1"}}) // the hour was charged by one alone
	b.setRules(strings.ReplaceAll(windows, "limits: [3/1h, 5/1d]", "limits: [3/1h, 5/1d]\n    mode: \"off\""))
	b.play(t, steps{{request(of("user", "a")), "OK: OK -"}})
}

// TestBoundPercent: a descriptor counts on the rules that have its key, and on a candidate until its end.
func TestBoundPercent(t *testing.T) {
	b := newBench(t, "")
	fatal.If(t, b.bindTo(`
rules:
  - { name: login, key: [{ header: x-user }], limit: 3/1d, algorithm: fixed_window, consistency: exact, percent: 30 }
candidates:
  - { rule: login, limit: 2/1d, until: "2024-10-04T01:00:00Z" }
`, `
bindings:
  - { domain: d, descriptor: [{ key: user }], rule: login }
`))
	rejected := 0
	for user := range 20 {
		for i := range 4 {
			if r := b.ask(request(of("user", fmt.Sprint(user)))); r.OverallCode != rlspb.RateLimitResponse_OK && i < 3 {
				t.Errorf("%d: rejected by %v", user, r)
			} else if r.OverallCode != rlspb.RateLimitResponse_OK {
				rejected++
			}
		}
	}
	if rejected < 2 || rejected > 12 {
		t.Errorf("of 20 users %d are rejected, want about 30 percent", rejected)
	}
	for range 2 {
		for rule, n := range map[string]int{`over",rule="login`: rejected, `shadow_over",rule="login@shadow`: 20 - rejected, `shadow_over",rule="login@candidate`: 40} {
			b.has(fmt.Sprintf(`weir_rls_decisions_total{result="%s"} %d`, rule, n))
		}
		b.advance(limit.Hour) // the candidate has ended
		b.ask(request(of("user", "new")))
	}
}
