package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

// TestKeyLimitsAreApart: limits of single keys are no part of what edges get. They name the
// content, whatever their order and spelling.
func TestKeyLimitsAreApart(t *testing.T) {
	const rules = `{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"5/1m","algorithm":"token_bucket","overrides":[{"when":{"header":{"x-tier":"gold"}},"limit":"50/1m"}%s]}]}`
	of := func(keys string) *rule.Set { return decode(t, fmt.Sprintf(rules, keys)) }
	const acme, globex = `,{"key":["acme"],"limit":"500/1m"}`, `,{"key":["globex"],"limit":{"count":7,"per":"1m","burst":9}}`
	without, with := of(""), of(acme+globex)
	if string(with.Encode()) != string(without.Encode()) || with.Version != without.Version || with.Rule(0).Limits[1].Limit.Count != 50 {
		t.Errorf("edges get %s\nwithout keys %s", with.Encode(), without.Encode())
	}
	if without.Content != without.Version || with.Content == with.Version || !strings.HasPrefix(with.Content, with.Version) {
		t.Errorf("content %q, without keys %q", with.Content, without.Content)
	}
	if again := of(globex + `,{"key":["acme"],"limit":{"count":500,"per":"60s","burst":500}}`); again.Content != with.Content {
		t.Errorf("the same limits have the content %q and %q", again.Content, with.Content)
	}
	seen := map[string]string{with.Content: acme + globex}
	for _, other := range []string{
		acme, acme + strings.Replace(globex, "9", "8", 1), acme + strings.Replace(globex, "globex", "other", 1), acme + `,{"key":["globex"],"limit":"unlimited"}`,
		acme + strings.Replace(globex, "}", `},"name":"x"`, 1), acme + strings.Replace(globex, "}", `},"until":"2026-12-01T00:00:00Z"`, 1),
		acme + strings.Replace(globex, "}", `},"until":"2026-12-01T00:00:01Z"`, 1),
	} {
		set := of(other)
		if seen[set.Content] != "" || set.Version != with.Version {
			t.Errorf("%s has the content of %q, or another version", other, seen[set.Content])
		}
		seen[set.Content] = other
	}
}

// TestKeyOfValues: the key of an override's values is that of the requests which have them.
func TestKeyOfValues(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ key, match, values, path, user, peer string }{
		{`{"header":"x-user"}`, ``, `"acme"`, "/", "acme", ""},
		{`{"header":"x-user"}`, ``, `"a|b\\c"`, "/", `a|b\c`, ""},
		{`{"header":"x-user"}`, ``, `"` + long + `"`, "/", long, ""},
		{`{"header":"x-user","else":"client_ip"},"method"`, ``, `"acme","GET"`, "/", "acme", "192.0.2.1:80"},
		{`"client_ip"`, ``, `"192.0.2.1"`, "/", "", "192.0.2.1:8080"},
		{`"client_ip"`, ``, `"2001:db8::1"`, "/", "", "[2001:db8::2]:80"},
		{`{"client_ip":{"ipv6_prefix":48}}`, ``, `"2001:db8:0:9::"`, "/", "", "[2001:db8:0:7::2]:80"},
		{`{"query":"account"}`, ``, `"4 2"`, "/a?account=4+2", "", ""},
		{`{"const":"all"},"path"`, ``, `"all","/v1"`, "/v1?x=1", "", ""},
		{`{"segment":"id"}`, `"match":{"path":{"template":"/u/{id}"},"ignore_case":true},`, `"ÉA"`, "/u/Éa", "", ""},
		{`"path"`, `"match":{"path":{"prefix":"/V1"},"ignore_case":true,"trailing_slash":"ignore","path_parameters":"ignore"},`, `"/v1/Pages/"`, "/V1;a=b/pages/;c?d", "", ""},
	} {
		set := decode(t, `{"rules":[{"name":"a",`+c.match+`"key":[`+c.key+`],"limit":"5/1m","overrides":[{"key":[`+c.values+`],"limit":"6/1m"}]}]}`)
		q := request(set, ":method", "GET", ":path", c.path, "x-user", c.user)
		q.Peer = c.peer
		var m rule.Matches
		set.Match(q, &m)
		if len(m.Hits) != 1 {
			t.Fatalf("%s: %d hits", c.key, len(m.Hits))
		}
		set.Rule(0).EachKey(nil, func(key []byte, own *rule.KeyLimit) {
			if string(key) != string(m.Hits[0].Key) || own.Limit.Count != 6 {
				t.Errorf("%s: %s has the key %q, a request %q", c.key, c.values, key, m.Hits[0].Key)
			}
		})
	}
}
