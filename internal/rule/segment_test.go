package rule_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

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
