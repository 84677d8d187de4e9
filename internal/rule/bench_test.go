package rule_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// manyRules returns n rules as a gateway has them: one for everybody, the others for one prefix and method each.
func manyRules(n int) []rule.Rule {
	base := []rule.Variant{{Limit: limit.Spec{Count: 100, Period: limit.Minute}}}
	rules := []rule.Rule{{Name: "all", Key: []rule.Part{{{From: rule.FromClientIP}}}, Limits: base}}
	for i := 1; i < n; i++ {
		rules = append(rules, rule.Rule{
			Name: "r" + strconv.Itoa(i),
			Match: rule.Match{
				Methods: []string{"GET"},
				Paths:   []rule.Text{{Op: rule.OpPrefix, Arg: "/service-" + strconv.Itoa(i) + "/"}},
			},
			Key:    []rule.Part{{{From: rule.FromHeader, Name: "x-user-id"}, {From: rule.FromClientIP}}},
			Limits: base,
		})
	}
	return rules
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1, 3, 100, 1000} {
		b.Run("rules="+strconv.Itoa(n), func(b *testing.B) {
			set := fatal.Get(checktest.New(manyRules(n)))(b)
			q, m := rule.Request{Peer: "203.0.113.7:50123"}, rule.Matches{}
			q.Headers = make([]rule.Value, len(set.Inputs().Headers))
			for _, h := range [][2]string{{":method", "GET"}, {":path", "/service-2/users/17?full=1"}, {"x-user-id", "alice"}} {
				q.Add(set.Inputs(), h[0], h[1])
			}
			b.ReportAllocs()
			for b.Loop() {
				set.Match(&q, &m)
			}
			if want := min(n, 2); len(m.Hits) != want {
				b.Fatalf("%d hits, want %d", len(m.Hits), want)
			}
		})
	}
}

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
