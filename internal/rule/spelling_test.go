package rule_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

// What a match takes for the same, with every way to write a path.
func TestSpelling(t *testing.T) {
	for _, path := range []string{`"/v1/login"`, `{"prefix":"/v1/login"}`, `{"regex":"/v1/log[i]n"}`, `{"template":"/v1/{x}"}`, `{"prefix":"/v1/"}`, `"/v1/login/"`, `{"template":"/v1/{x}/"}`} {
		for _, c := range []struct{ ignore, yes, no string }{
			{`"ignore_case":true`, "/v1/login /V1/login", ""},
			{`"trailing_slash":"ignore"`, "/v1/login /v1/login/ /v1/login/?x", "/v2/login /V1/login"},
			{`"path_parameters":"ignore"`, "/v1;a=b/login;v=1 /x/..;/v1/login /;/v1/;x/login;/../login /v1/.;y/login", "/v1/../login;/v1 /v2;/v1/login"},
			{`"ignore_case":true,"trailing_slash":"ignore","path_parameters":"ignore"`, "/v1/login /V1;a/Login/;b /v1/LOGIN/", "/v2/login"},
		} {
			set := decode(t, `{"rules":[{"name":"r","match":{"path":`+path+`,`+c.ignore+`},"key":[],"limit":"5/1m"}]}`)
			var m rule.Matches
			slash := (strings.HasSuffix(path, `/"`) || strings.HasSuffix(path, `}/"}`)) && !strings.Contains(c.ignore, "trailing_slash")
			for requests, want := range map[string]int{c.yes: 1, c.no: 0} {
				for _, request := range strings.Fields(requests) {
					if slash && want == 1 { // of the rule, where it matters
						request += "/"
					}
					if set.Match(&rule.Request{Path: request}, &m); len(m.Hits) != want {
						t.Errorf("%s with %s: %d hits of %s, want %d", path, c.ignore, len(m.Hits), request, want)
					}
				}
			}
		}
	}
}

// A path that a client made to climb costs what its length does: it is taken apart for
// every request, and one of 60 kB came to 0.1 s and 170 MB of copies.
func TestLongClimb(t *testing.T) {
	path := strings.Repeat("/a", 15_000) + strings.Repeat("/..;", 7500)
	form := rule.IgnorePathParameters.Append(nil, path)
	if want := strings.Repeat("/a", 7500) + "/"; string(form) != want {
		t.Errorf("%d bytes are left, want %d", len(form), len(want))
	}
	if n := testing.AllocsPerRun(2, func() { form = rule.IgnorePathParameters.Append(form[:0], path) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSegment: a segment of the path is the same key for all paths that the rule takes for the same.
func TestSegment(t *testing.T) {
	const users = `"path":{"template":"/Users/{id}/orders/{order}"}`
	for _, c := range []struct{ match, name, path, want string }{
		{users, "id", "/Users/7/orders/8?x=/9", "7"},
		{users, "order", "/Users/7/orders/8#top", "8"},
		{users, "id", "/Users/a%2Fb/orders/8", "a%2Fb"},
		{users, "id", "/Users/a|b/orders/8", `a\|b`},
		{users, "id", "/Users/7;v=1/orders/8", "7;v=1"},
		{users + `,"ignore_case":true`, "id", "/USERS/Ann/Orders/8", "ann"},
		{users + `,"trailing_slash":"ignore"`, "order", "/Users/7/orders/8/", "8"},
		{users + `,"trailing_slash":"ignore"`, "order", "/Users/7/orders/8", "8"},
		{users + `,"path_parameters":"ignore"`, "order", "/Users;a/7;b=1/orders/8;c", "8"},
		{users + `,"ignore_case":true,"trailing_slash":"ignore","path_parameters":"ignore"`, "id", "/users/ANN;x/orders/8;y/", "ann"},
		{`"path":[{"template":"/a/{id}"},{"template":"/b/x/{id}/{y}"}]`, "id", "/b/x/7/8", "7"},
		{`"path":[{"template":"/{x}/{id}"},{"template":"/{id}/b"}]`, "id", "/a/b", "b"},
		{`"path":{"template":"/{id}/"},"trailing_slash":"ignore"`, "id", "/a", "a"},
		{`"path":{"template":"/{id}/"}`, "id", "/a/", "a"},
	} {
		set := decode(t, `{"rules":[{"name":"a","match":{`+c.match+`},"key":[{"segment":"`+c.name+`"}],"limit":"5/1m"}]}`)
		var m rule.Matches
		if set.Match(request(set, ":path", c.path), &m); len(m.Hits) != 1 || string(m.Hits[0].Key) != c.want {
			t.Errorf("%s of %s in %s: hits %+v, want the key %q", c.name, c.path, c.match, m.Hits, c.want)
		}
		value := strings.NewReplacer(`\|`, "|").Replace(c.want)
		if key := set.Rule(0).KeyOf([]string{value}); string(key) != c.want {
			t.Errorf("%s in %s: an override for %q has the key %q, want %q", c.name, c.match, value, key, c.want)
		}
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
