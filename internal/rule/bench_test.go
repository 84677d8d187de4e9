package rule_test

import (
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/read"
)

// manyRules returns n rules as a gateway has them: one for everybody, the others
// for one prefix and method each.
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
			set, err := check.New(manyRules(n))
			if err != nil {
				b.Fatal(err)
			}
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

func BenchmarkDecode(b *testing.B) {
	set, err := check.New(manyRules(100))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(set.Encode())))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read.JSON(set.Encode()); err != nil {
			b.Fatal(err)
		}
	}
}

// The key of a long value is a hash.
func BenchmarkShortKey(b *testing.B) {
	for _, n := range []int{rule.MaxKey, 150, 4096} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			key := make([]byte, n)
			b.ReportAllocs()
			for b.Loop() {
				rule.ShortKey(key)
			}
		})
	}
}
