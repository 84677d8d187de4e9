package rule_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

// TestHashedKey: the key is the mark and 32 digits of the whole key, however long it is; without a secret there is none,
// and the other rules see the plain one.
func TestHashedKey(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","key":[{"header":"x-key"},"method"],"hash":true,"limit":"5/1m"},{"name":"b","key":[{"header":"x-key"}],"limit":"5/1m"}]}`)
	one, two := rule.Secret{1}, rule.Secret{2}
	long := strings.Repeat("k", 200)
	seen := map[string]bool{}
	for _, value := range []string{"hunter2", "a|b", long, long + "x"} {
		for _, secret := range []*rule.Secret{&one, &two} {
			q, m := request(set, "x-key", value, ":method", "GET"), rule.Matches{}
			q.Secret = secret
			for range 2 {
				set.Match(q, &m)
			}
			key := string(m.Hits[0].Key)
			if len(key) != 34 || key[:2] != `\h` || m.Hits[0].NoSecret || seen[key] {
				t.Errorf("%s: %+v", value, m.Hits[0])
			}
			seen[key] = true
			if of := set.Rule(0).HashedKeyOf([]string{value, "GET"}, secret); string(of) != key {
				t.Errorf("%s: %s, and a request has %s", value, of, key)
			}
			if plain := string(m.Hits[1].Key); plain != string(set.Rule(1).KeyOf([]string{value})) {
				t.Errorf("the next rule has the key %q", plain)
			}
		}
	}
	q, m := request(set, "x-key", "hunter2", ":method", "GET"), rule.Matches{}
	if set.Match(q, &m); !m.Hits[0].NoSecret || strings.Contains(string(m.Hits[0].Key), "hunter2") || m.Hits[1].NoSecret {
		t.Errorf("without a secret: %+v", m.Hits)
	}
	q.Secret = &one
	if n := testing.AllocsPerRun(100, func() { set.Match(q, &m) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if one.Fingerprint() == two.Fingerprint() {
		t.Error("two secrets have one fingerprint")
	}
}
