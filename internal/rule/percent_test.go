package rule_test

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
)

// holds reports for each of n keys whether a rule of this name and condition applies.
func holds(t *testing.T, doc, name, percent string, n int) []bool {
	t.Helper()
	set := decode(t, fmt.Sprintf(`{%s"rules":[{"name":"base","key":[{"header":"x"}],"limit":"5/1m"},{"name":%q,"match":{%s},"key":[{"header":"x"}],"limit":"5/1m"}]}`, doc, name, percent))
	var m rule.Matches
	out := make([]bool, n)
	for i := range out {
		set.Match(request(set, "x", fmt.Sprint("user-", i)), &m)
		out[i] = len(m.Hits) == 2
	}
	return out
}

func count(list []bool) (n int) {
	for _, yes := range list {
		if yes {
			n++
		}
	}
	return n
}

// TestPercent: so many of the keys; which ones follows from seed, rule and key alone. Keys stay
// while the number rises, and ranges that touch divide them.
func TestPercent(t *testing.T) {
	const n = 20_000
	ten := holds(t, "", "r", `"percent":10`, n)
	for percent, want := range map[string]int{`"percent":1`: 200, `"percent":10`: 2000, `"percent":99`: 19800,
		`"percent":{"from":10,"to":30}`: 4000, `"percent":{"to":50}`: 10000, `"not":{"percent":10}`: 18000} {
		if got := count(holds(t, "", "r", percent, n)); got < want-300 || got > want+300 {
			t.Errorf("%s holds for %d of %d keys, want about %d", percent, got, n, want)
		}
	}
	twenty, rest, not := holds(t, "", "r", `"percent":20`, n), holds(t, "", "r", `"percent":{"from":10,"to":100}`, n), holds(t, "", "r", `"not":[{"percent":10}]`, n)
	both := holds(t, "", "r", `"percent":20,"not":{"percent":10}`, n)
	for i := range ten {
		if ten[i] && !twenty[i] || ten[i] == rest[i] || rest[i] != not[i] || both[i] != (twenty[i] && !ten[i]) {
			t.Fatalf("key %d: 10 %v, 20 %v, from 10 %v, not 10 %v, 20 without 10 %v", i, ten[i], twenty[i], rest[i], not[i], both[i])
		}
	}
	differ := func(doc, name string) (n int) {
		for i, other := range holds(t, doc, name, `"percent":10`, len(ten)) {
			if other != ten[i] {
				n++
			}
		}
		return n
	}
	if differ(`"seed":7,`, "r") < n/20 || differ("", "other") < n/20 {
		t.Error("another seed, or another rule, has the same keys")
	}
	// The keys of a percent never change: an experiment outlives a release.
	var first []int
	for i := range ten {
		if ten[i] && len(first) < 5 {
			first = append(first, i)
		}
	}
	if got := fmt.Sprint(first); got != pinnedPercent {
		t.Errorf("the first of ten percent are %s, and were %s", got, pinnedPercent)
	}
}

const pinnedPercent = "[3 11 15 16 59]"
