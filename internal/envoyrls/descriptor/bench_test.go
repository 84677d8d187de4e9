package descriptor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
)

// BenchmarkMatch looks up descriptors of two entries: a value among ten thousand, a
// wildcard among a hundred that begin differently, one among a hundred that begin
// alike, and a key alone.
func BenchmarkMatch(b *testing.B) {
	var text strings.Builder
	text.WriteString("domain: d\ndescriptors:\n  - {key: user, descriptors: &paths [{key: path, rate_limit: &any {unit: second, requests_per_unit: 1}}]}\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  - {key: user, value: u%d, descriptors: *paths}\n", i)
	}
	for i := range 100 {
		fmt.Fprintf(&text, "  - {key: user, value: 'team-%d-*', descriptors: *paths}\n", i)
	}
	for i := range 100 {
		fmt.Fprintf(&text, "  - {key: user, value: 'bot-*-%d', descriptors: *paths}\n", i)
	}
	c := parse(b, text.String())
	for _, value := range []string{"u7777", "team-77-alice", "bot-alice-77", "somebody-else"} {
		b.Run(value, func(b *testing.B) {
			es := []descriptor.Entry{{Key: "user", Value: value}, {Key: "path", Value: "/v1/orders/4711"}}
			var key []byte
			b.ReportAllocs()
			for b.Loop() {
				r := c.Match("d", es)
				if r == nil {
					b.Fatal("no rule")
				}
				key = r.AppendKey(key[:0], es)
			}
		})
	}
}
