package service_test

import (
	"bytes"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

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

// TestHash: without a secret rules that hash keys are refused, and those in force stay. Limits of single keys hold under
// each secret; holders get the first one, and only with the rules.
func TestHash(t *testing.T) {
	r := newRegion(t)
	before, _ := r.service.RulesVersion()
	set := rulesOf(t, hashRules)
	if err := r.service.SetRules(set); err == nil || !strings.Contains(err.Error(), "rule a: hash: true") || !strings.Contains(err.Error(), "--key-secrets") {
		t.Fatalf("without a secret: %v", err)
	}
	if after, _ := r.service.RulesVersion(); after != before {
		t.Error("rules that were refused replaced others")
	}
	client := r.client()
	secret := func(have uint64) []byte {
		answer := fatal.Get(client.Rules(t.Context(), connect.NewRequest(&quotapb.RulesRequest{Protocol: 1, ProtocolMax: 2, HaveSecret: have})))(t)
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
