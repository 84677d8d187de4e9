package edge

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const goodTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// hostileRules are rules that let requests ask for much: high costs, long keys of
// all parts, and more rules for one request than a group may have.
func hostileRules() string {
	var b strings.Builder
	b.WriteString(`{"rules":[
		{"name":"sum","match":{"path":{"prefix":"/sum"}},"key":[],"limit":"4294967295/24h","algorithm":"fixed_window","consistency":"exact",
			"cost":{"header":"x-cost","max":4294967295}},
		{"name":"slots","match":{"path":{"prefix":"/slots"}},"key":[],"limit":16777215,"algorithm":"concurrency","cost":{"header":"x-cost","max":16777215}},
		{"name":"long","match":{"path":{"prefix":"/long"}},"limit":"10/24h","algorithm":"fixed_window",
			"key":[{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"x-user"}]}`)
	for i := range 150 {
		fmt.Fprintf(&b, `,{"name":"many-%d","match":{"path":"/many"},"key":[{"header":"x-user"}],"limit":"1000/24h"}`, i)
	}
	b.WriteString("]}")
	return b.String()
}

// Whatever requests come, no call exceeds a bound of the region, which would warn of it.
func TestCallsKeepWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 1, hostileRules())
		x := w.workers[0]
		trace := ""
		x.Trace = func() string { return trace }
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			path := rapid.SampledFrom([]string{"/sum", "/slots", "/long", "/many", "/sum/slots"}).Draw(t, "path")
			cost := rapid.SampledFrom([]string{"", "1", "4294967295", "4294967294", "99999999999999999999", "-1", "x", "16777215"}).Draw(t, "cost")
			trace = rapid.SampledFrom([]string{"", goodTrace, "\xff", strings.Repeat("\xff", 60_000), goodTrace + ","}).Draw(t, "trace")
			for n := range requests(t, path) {
				w.sends(0, &Request{}, ":path", path, ":method", "GET", "x-user", fmt.Sprint(n), "x-cost", cost, "a", strings.Repeat("\\", 256))
			}
			for len(w.calls) > 0 && rapid.Bool().Draw(t, "answer") {
				w.answer(0)
			}
			w.pass(100)
		}
		w.settle()
		for trace := range w.region.traces {
			if trace != "" && trace != goodTrace {
				t.Fatalf("traceparent %.80q", trace)
			}
		}
	})
}

func requests(t *rapid.T, path string) int {
	if path == "/many" { // each of them 150 wants
		return rapid.IntRange(1, 8).Draw(t, "requests")
	}
	return rapid.SampledFrom([]int{1, 3, 600}).Draw(t, "requests")
}
