package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/rule"
)

// benchWorld is one worker whose keys have all they want on lease.
func benchWorld(b *testing.B, rules string) (*world, *rule.Request) {
	w := newWorld(b, 1, rules)
	x := w.workers[0]
	in := &rule.Request{}
	in.Reset(x.Inputs())
	in.Add(x.Inputs(), ":path", "/v1/accounts/42?expand=all")
	in.Add(x.Inputs(), "x-user", "user-123456")
	return w, in
}

func benchDecide(b *testing.B, rules string, want Outcome, tap *quotapb.Tap) {
	w, in := benchWorld(b, rules)
	x, r := w.workers[0], &Request{}
	if tap != nil {
		w.watched(tap)
		w.admit(0, "/", "warm")
		w.passes(200)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%1000 == 0 {
			w.now++
		}
		x.Match(in)
		if x.Decide(w.now, r) != want {
			w.collect()
			w.settle()
		}
	}
}

// Deciding costs what reading and writing the table costs, and little else. The
// store of the test copies what it returns: that is the one allocation.
func BenchmarkDecide(b *testing.B) {
	rules := ""
	for i, name := range []string{"a", "b", "c"} {
		rules += fmt.Sprintf(`,{"name":%q,"key":[{"header":"x-user"}],"limit":"4000000000/1h","algorithm":"token_bucket"}`, name)
		b.Run(fmt.Sprintf("%d rules", i+1), func(b *testing.B) { benchDecide(b, `{"rules":[`+rules[1:]+`]}`, Admit, nil) })
	}
	b.Run("refused from the cache", func(b *testing.B) {
		benchDecide(b, `{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"0/1h","algorithm":"fixed_window"}]}`, Deny, nil)
	})
	b.Run("no rule", func(b *testing.B) {
		benchDecide(b, `{"rules":[{"name":"a","match":{"path":"/login"},"key":[{"header":"x-user"}],"limit":"1/1h"}]}`, Admit, nil)
	})
	// While somebody watches its keys, and taps everything.
	for name, tap := range map[string]*quotapb.Tap{"watched": {Outcome: quotapb.Outcome_OUTCOME_UNAVAILABLE}, "tapped": {PerSecond: 1000}} {
		b.Run("3 rules, "+name, func(b *testing.B) { benchDecide(b, `{"rules":[`+rules[1:]+`]}`, Admit, tap) })
	}
}
