package rule_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"pgregory.net/rapid"
)

// All shares together are never more than the limit, and waste less than a unit for each region.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs rule.Regions
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_-]{1,8}`), 1, 5, rapid.ID).Draw(t, "names") {
			rs = append(rs, rule.Region{Name: name, Weight: rapid.Int64Range(1, 1000).Draw(t, "weight")})
		}
		n := rapid.Int64Range(0, limit.MaxCount).Draw(t, "units")
		var sum int64
		for _, r := range rs {
			sum += rs.Share(r.Name, n)
		}
		if sum > n || sum <= n-int64(len(rs)) {
			t.Errorf("%v: shares of %d together %d", rs, n, sum)
		}
		if got := rs.Share("NOT THERE", n); got != 0 {
			t.Errorf("a region without weight has %d", got)
		}
	})
}

// The default of on_failure is local exactly where a region may be cut off and has a share. An
// allow that was stated stays one in the compiled form.
func TestOnFailureOfGlobalRules(t *testing.T) {
	const global = `"name":"a","key":[],"limit":"100/1m","scope":"global"`
	for _, test := range []struct {
		doc  string
		want lease.OnFailure
	}{
		{`{"regions":{"eu":1},"rules":[{` + global + `}]}`, lease.FailureLocal},
		{`{"regions":{"eu":1},"rules":[{` + global + `,"on_failure":"allow"}]}`, lease.FailureAllow},
		{`{"regions":{"eu":1},"rules":[{` + global + `,"on_failure":"deny"}]}`, lease.FailureDeny},
		{`{"regions":{"eu":1},"rules":[{"name":"a","key":[],"limit":"100/1m"}]}`, lease.FailureAllow},
		{`{"rules":[{` + global + `}]}`, lease.FailureAllow},
	} {
		set := decode(t, test.doc)
		again := decode(t, string(set.Encode()))
		if got := set.Rule(0).OnFailure; got != test.want || again.Rule(0).OnFailure != test.want || again.Version != set.Version {
			t.Errorf("%s: %v, want %v; compiled %s", test.doc, got, test.want, set.Encode())
		}
	}
}

// A region has one name everywhere: at the region, in rules, in calls and in certificates.
func TestRegionNames(t *testing.T) {
	for name, want := range map[string]bool{
		"eu": true, "EU": true, "eu-west-1a": true, "eu_west.1": true, strings.Repeat("r", 64): true,
		"": false, strings.Repeat("r", 65): false, "eu/us": false, "eu us": false, "{region}": false, "eu\n": false, "é": false, "eu:1": false, "*": false,
	} {
		if got := rule.IsRegion(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
