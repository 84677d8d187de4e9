package filter

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/wire"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Only a traceparent that is one, and the only one, travels with a call. Another header that is repeated is one value. Neither
// depends on how many headers the rules look at.
func TestRepeatedHeaders(t *testing.T) {
	oneHeader := strings.Replace(userRules, `"match":{"path":{"prefix":"/v1/"}},`, "", 1)
	for _, rules := range []string{userRules, oneHeader} {
		e := startNew(t, withRules(t, rules), 1)
		for _, c := range []struct {
			headers   []string
			key, want string
		}{
			{[]string{"x-user", "a"}, "a", ""},
			{[]string{"x-user", "b", "traceparent", trace}, "b", trace},
			{[]string{"x-user", "c", "traceparent", "\xff"}, "c", ""},
			{[]string{"x-user", "d", "traceparent", trace, "traceparent", trace}, "d", ""},
			{[]string{"x-user", "e", "traceparent", "", "traceparent", trace}, "e", ""},
			{[]string{"x-user", "ann", "x-user", "bob"}, "ann,bob", ""},
		} {
			e.send(0, append([]string{":path", "/v1/a"}, c.headers...)...)
			call := e.inFlight()[0]
			var q wire.Request
			if err := q.Decode(call.body); err != nil || header(call.headers, "traceparent") != c.want || strings.Join(q.TraceParent, " ") != c.want ||
				string(q.Wants[0].Key) != c.key {
				t.Errorf("%.70q: headers %q, the call has %q and the key %q, %v; want %q", c.headers, call.headers, q.TraceParent, q.Wants[0].Key, err, c.want)
			}
			e.settle(nil)
		}
	}
}
