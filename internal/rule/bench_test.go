package rule_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

// BenchmarkLongPath is what one condition, or the key, costs where a client sends a path of 60 kB, the most that Envoy
// takes by default. docs/rules.md has some of it.
func BenchmarkLongPath(b *testing.B) {
	for _, c := range []struct{ name, match, key string }{
		{"template", `"path":{"template":"/{a}/b"}`, `"client_ip"`},
		{"regex", `"path":{"regex":"/.*\\.(css|js)"}`, `"client_ip"`},
		{"regex for another host", `"host":"example.com","path":{"regex":"/.*\\\\.(css|js)"}`, `"client_ip"`},
		{"regex of 1804 steps", `"path":{"regex":"/.*[ab]{900}[ab]{900}x"}`, `"client_ip"`},
		{"query", `"query":{"v":"2"}`, `"client_ip"`},
		{"key", `"method":"GET"`, `"path"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			set := decode(b, `{"rules":[{"name":"a","match":{`+c.match+`},"key":[`+c.key+`],"limit":"5/1m"}]}`)
			q, m := rule.Request{Method: "GET", Path: "/?" + strings.Repeat("ab", 30_000), Peer: "203.0.113.7"}, rule.Matches{}
			if c.name != "query" {
				q.Path = "/" + q.Path[2:]
			}
			for b.Loop() {
				set.Match(&q, &m)
			}
		})
	}
}
