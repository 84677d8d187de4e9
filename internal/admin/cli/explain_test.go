package cli

import (
	"testing"

	v1 "github.com/weirlimit/weir/api/admin/v1"
)

// The first sentences say what becomes of a request, why, and which rules were not checked.
func TestSummary(t *testing.T) {
	five := int64(5)
	login := v1.Explained{Rule: "login", Mode: "enforce", Applies: true, Cost: 1, Limit: &five, Counters: []v1.Counter{{Limit: 5, Remaining: 1, ResetMS: 42_000}}}
	all := v1.Explained{Rule: "all", Mode: "enforce", Applies: true, Cost: 1, Counters: []v1.Counter{{Limit: 600, Remaining: 590}}}
	trial := v1.Explained{Rule: "trial", Mode: "shadow", Applies: true, Cost: 1, Counters: []v1.Counter{{Limit: 5}}}
	perKey := v1.Explained{Rule: "per-key", Mode: "enforce", Unknown: true, Needs: []string{"header x-api-key"}}
	upload := v1.Explained{Rule: "upload", Mode: "enforce", Applies: true, Cost: 1, Counters: []v1.Counter{{Limit: 2, Slots: true}}}
	used, costly := login, login
	used.Counters, costly.Counters, costly.Cost = []v1.Counter{{Limit: 5, RetryAfterMS: 12_000, ResetMS: 42_000}}, nil, 7
	two := used
	two.Cost = 2
	for _, c := range []struct {
		file, by string
		rules    []v1.Explained
		want     string
	}{
		{"", "login", []v1.Explained{all, used, perKey}, "Would be rejected now by `login`: 5 of 5 used, free in 12s. Not checked: `per-key` (the log has no header x-api-key)."},
		{"", "login", []v1.Explained{two}, "Would be rejected now by `login`: it costs 2, 5 of 5 used, all free in 42s."},
		{"", "upload", []v1.Explained{all, upload}, "Would be rejected now by `upload`: 2 of 2 in use."},
		{"rules.yaml", "login", []v1.Explained{costly}, "Would be rejected now by `login`: it costs 7, the limit is 5."},
		{"", "", []v1.Explained{all, login, trial}, "Would be admitted now. Nearest to its limit: `login`, 1 of 5 left."},
		{"rules.yaml", "", []v1.Explained{all, login, trial}, "Rejected only when a limit is used up. Counted by `all`, `login`."},
		{"", "", []v1.Explained{perKey}, "No rule that was checked rejects it. Not checked: `per-key` (the log has no header x-api-key)."},
		{"", "", []v1.Explained{{Rule: "api", Mode: "enforce", Failed: "path"}, trial}, "No enforced rule applies to it."},
		{"", "", []v1.Explained{{Rule: "api", Mode: "enforce", ExemptBy: "probes"}}, "No enforced rule applies to it: `probes` exempts it."},
	} {
		e := Explain{Rules: c.file}
		if got := e.summary(&v1.Explanation{RejectedBy: c.by, Rules: c.rules}); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
