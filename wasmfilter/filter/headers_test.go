package filter

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/wire"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Only a traceparent that is one, and the only one, travels with a call.
func TestTraceParent(t *testing.T) {
	oneHeader := strings.Replace(userRules, `"match":{"path":{"prefix":"/v1/"}},`, "", 1)
	each(t, func(t *testing.T, start func(string, int) *envoy) {
		for _, rules := range []string{userRules, oneHeader} {
			e := start(withRules(t, rules), 1)
			for i, c := range []struct {
				headers []string
				want    string
			}{
				{nil, ""},
				{[]string{"traceparent", trace}, trace},
				{[]string{"traceparent", "\xff"}, ""},
				{[]string{"traceparent", strings.Repeat("x", 60_000)}, ""},
				{[]string{"traceparent", strings.ToUpper(trace)}, ""},
				{[]string{"traceparent", trace, "traceparent", trace}, ""},
				{[]string{"traceparent", "", "traceparent", trace}, ""},
			} {
				e.send(0, append([]string{":path", "/v1/a", "x-user", strings.Repeat("u", i+1)}, c.headers...)...)
				call := e.inFlight()[0]
				if got := header(call.headers, "traceparent"); got != c.want {
					t.Errorf("%.70q: header %q, want %q", c.headers, got, c.want)
				}
				var q wire.Request
				if err := q.Decode(call.body); err != nil || strings.Join(q.TraceParent, " ") != c.want {
					t.Errorf("%.70q: call has %q, %v; want %q", c.headers, q.TraceParent, err, c.want)
				}
				e.settle(nil)
			}
		}
	})
}

// What a repeated header means does not depend on which other rules exist.
func TestRepeatedHeader(t *testing.T) {
	oneHeader := strings.Replace(userRules, `"match":{"path":{"prefix":"/v1/"}},`, "", 1)
	each(t, func(t *testing.T, start func(string, int) *envoy) {
		for _, rules := range []string{userRules, oneHeader} {
			e := start(withRules(t, rules), 1)
			e.send(0, ":path", "/v1/a", "x-user", "ann", "x-user", "bob")
			var q wire.Request
			if err := q.Decode(e.inFlight()[0].body); err != nil || string(q.Wants[0].Key) != "ann,bob" {
				t.Errorf("key %q, %v; want ann,bob", q.Wants[0].Key, err)
			}
			e.settle(nil)
		}
	})
}
