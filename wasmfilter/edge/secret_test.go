package edge

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

const hashedRule = `{"rules":[{"name":"user","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],"hash":true,
	"limit":"3/1h","algorithm":"fixed_window","on_failure":"deny"}]}`

// Without a secret a rule that hashes keys does not count in plain: on_failure decides. A PoP fetches the secret with the rules, and a
// changed one with the next reply that names another; all workers use it, and no key is ever sent or kept in plain.
func TestSecret(t *testing.T) {
	w := newWorld(t, 2, hashedRule)
	if r := w.request(0, "/v1/a", "hunter2"); r.Outcome != Deny || !r.Degraded || len(w.calls) > 0 || len(r.DeniedKey()) > 0 {
		t.Errorf("without a secret: outcome %v, degraded %v, %d calls, the access log gets the key %q", r.Outcome, r.Degraded, len(w.calls), r.DeniedKey())
	}
	w.region.use(w.region.set, rule.Secret{1})
	w.passes(6000)
	w.pass(200)
	admitted := func() (n int) {
		for i := range 6 {
			if w.admit(i%2, "/v1/a", "hunter2") {
				n++
			}
		}
		return n
	}
	if n := admitted(); n != 3 {
		t.Errorf("admitted %d of 3", n)
	}
	if key := string(w.request(0, "/v1/a", "hunter2").DeniedKey()); !strings.HasPrefix(key, `\h`) {
		t.Errorf("the access log gets the key %q", key)
	}
	w.region.use(w.region.set, rule.Secret{2})
	w.admit(0, "/v1/a", "other") // its reply names the new secret
	w.settle()
	w.passes(1000)
	if n := admitted(); n != 3 {
		t.Errorf("admitted %d of 3 under another secret", n)
	}
	if len(w.region.keys) < 3 { // hunter2 under each secret, and other
		t.Errorf("keys %v", w.region.keys)
	}
	for key := range w.region.keys {
		if !strings.HasPrefix(key, `user/\h`) || strings.Contains(key, "hunter2") {
			t.Errorf("key %s", key)
		}
	}
	for key, value := range w.store.Values {
		if strings.Contains(string(value.Data), "hunter2") {
			t.Errorf("the key is in plain in the record %q", key)
		}
	}
}
