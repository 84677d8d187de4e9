package descriptor_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/rls/descriptor"
)

func match(t testing.TB, c *descriptor.Config, text string) descriptor.Match {
	t.Helper()
	m, ok := c.Match("d", entries(text))
	if !ok {
		t.Fatalf("%s matches no rule", text)
	}
	return m
}

// TestPathsDiffer: what looks the same when joined has different paths.
func TestPathsDiffer(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: "a|b", rate_limit: &any {unlimited: true}}, {key: a, descriptors: [{key: b, rate_limit: *any}]},
		{key: "a=b", rate_limit: *any}, {key: a, value: b, rate_limit: *any}, {key: "a%3Db", rate_limit: *any},
		{key: a, value: "b|c", rate_limit: *any}, {key: a, value: "b=c", rate_limit: *any}]}`)
	var paths []string
	for r := range c.Rules() {
		paths = append(paths, r.Path)
	}
	want := []string{"d|a%7Cb", "d|a|b", "d|a%3Db", "d|a=b", "d|a%253Db", "d|a=b%7Cc", "d|a=b=c"}
	if !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}

func TestLimit(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 4294967295}}, {key: free, rate_limit: {unlimited: true}}]}`)
	r := match(t, c, "k=1").Rule
	want := limit.Spec{Algorithm: limit.FixedWindow, Count: math.MaxUint32, Period: limit.Hour, LeaseTTL: 10 * limit.Second}
	if r.Limit.Spec() != want || r.RequestsPerUnit != math.MaxUint32 || r.Unit != descriptor.Hour || r.File != "f.yaml" || r.Line != 1 {
		t.Errorf("%+v, want %+v", r.Limit.Spec(), want)
	}
	if r := match(t, c, "free=1").Rule; r.Limit != nil || !r.Unlimited {
		t.Errorf("unlimited: %+v", r)
	}
}

// TestWith: a limit that comes with a request changes a rule's numbers and nothing
// else, and never the rule itself.
func TestWith(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: k, shadow_mode: true, quota_mode: true, metadata: {a: b}, rate_limit: {unit: hour, requests_per_unit: 5, name: n, replaces: [{name: o}]}},
		{key: free, rate_limit: {unlimited: true, name: o}}]}`)
	m := match(t, c, "k=1")
	r, err := m.Rule.With(7, descriptor.Day)
	if err != nil {
		t.Fatal(err)
	}
	if r.RequestsPerUnit != 7 || r.Unit != descriptor.Day || r.Limit.Spec().Count != 7 || r.Limit.Spec().Period != limit.Day {
		t.Errorf("%d per %s, want 7 per day", r.RequestsPerUnit, r.Unit)
	}
	if r.Path != m.Rule.Path || !r.Shadow || !r.Quota || r.Name != "n" || len(r.Replaces) != 1 || r.Metadata["a"] != "b" {
		t.Errorf("more than the numbers changed: %+v", r)
	}
	if m.Rule.RequestsPerUnit != 5 || m.Rule.Unit != descriptor.Hour {
		t.Errorf("the rule itself changed: %+v", m.Rule)
	}
	if key := (descriptor.Match{Rule: r}).AppendKey(nil, entries("k=1")); string(key) != "1" {
		t.Errorf("the key of the counter is %q, want 1", key)
	}
	if r, err := match(t, c, "free=1").Rule.With(0, descriptor.Second); err != nil || r.Unlimited || r.Limit == nil {
		t.Errorf("a limit for what is unlimited: %+v, %v", r, err)
	}
	if _, err := m.Rule.With(1, 0); err == nil || err.Error() != "the unit of the limit is unknown; it is one of second, minute, hour, day, week, month or year" {
		t.Errorf("without a unit: %v", err)
	}
}

// TestOverride: a limit that comes with a request stands alone where no rule is.
func TestOverride(t *testing.T) {
	es := entries("a=x, b_c=y|z")
	r, err := descriptor.Override("d", es, 3, descriptor.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m := descriptor.Match{Rule: r}
	key, metric := string(m.AppendKey(nil, es)), string(m.AppendMetric(nil, es))
	if r.Path != "d|a|b_c" || metric != r.Path || key != `x|y\|z` || r.Domain != "d" || r.Limit.Spec().Count != 3 || r.Limit.Spec().Period != limit.Minute {
		t.Errorf("%+v, key %q, metric %q", r, key, metric)
	}
	for _, test := range []struct {
		domain  string
		entries []descriptor.Entry
		unit    descriptor.Unit
		want    string
	}{
		{"", es, descriptor.Second, "the domain is empty; a limit belongs to a domain"},
		{"d", nil, descriptor.Second, "the descriptor has no entries; it needs one to count by"},
		{"d", es, 0, "the unit of the limit is unknown; it is one of second, minute, hour, day, week, month or year"},
		{"d", es, 8, "the unit of the limit is unknown; it is one of second, minute, hour, day, week, month or year"},
	} {
		if r, err := descriptor.Override(test.domain, test.entries, 1, test.unit); r != nil || err == nil || err.Error() != test.want {
			t.Errorf("%+v, %v, want %s", r, err, test.want)
		}
	}
}

func TestReplaced(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: a, rate_limit: {unit: second, requests_per_unit: 1, name: a}},
		{key: b, rate_limit: {unit: second, requests_per_unit: 1, name: b, replaces: [{name: a}, {name: missing}]}},
		{key: c, rate_limit: {unlimited: true, name: c, replaces: [{name: b}]}},
		{key: d, rate_limit: {unit: second, requests_per_unit: 1, name: a}},
		{key: e, rate_limit: {unit: second, requests_per_unit: 1}}]}`)
	for _, test := range []struct{ keys, want string }{
		{"a", "-"}, {"b", "-"}, {"a e -", "-"},
		{"a b", "10"},
		{"b a d", "011"},          // all of that name, wherever they stand
		{"a b c", "110"},          // what is replaced replaces, and so does what is unlimited
		{"a - c b - a", "100101"}, // some without a rule
		{"", "-"},
	} {
		var matches []descriptor.Match
		for _, key := range strings.Fields(test.keys) {
			m, _ := c.Match("d", entries(key))
			matches = append(matches, m)
		}
		got := "-"
		if replaced := descriptor.Replaced(matches); replaced != nil {
			got = ""
			for _, r := range replaced {
				got += map[bool]string{true: "1", false: "0"}[r]
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.keys, got, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for number, want := range []struct {
		name    string
		seconds int64
	}{{"unknown", 0}, {"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", 86400}, {"month", 30 * 86400}, {"year", 365 * 86400}, {"week", 7 * 86400}} {
		u, ok := descriptor.UnitOf(int32(number))
		if ok != (number > 0) || u.Number() != int32(number) || u.String() != want.name || u.Seconds() != want.seconds || u.Period() != limit.Micros(want.seconds)*limit.Second {
			t.Errorf("%d is %s of %d s, want %s of %d s", number, u, u.Seconds(), want.name, want.seconds)
		}
		if parsed, ok := descriptor.ParseUnit(want.name); ok != (number > 0) || parsed != u {
			t.Errorf("%s reads as %s", want.name, parsed)
		}
	}
	for _, number := range []int32{-1, 8, math.MaxInt32, math.MinInt32} {
		if u, ok := descriptor.UnitOf(number); ok || u != 0 {
			t.Errorf("%d is %s", number, u)
		}
	}
	if u := descriptor.Unit(200); u.String() != "unknown" || u.Period() != 0 {
		t.Errorf("200 is %s", u)
	}
	for _, name := range []string{"", "seconds", " second", "Week\n", "0"} {
		if u, ok := descriptor.ParseUnit(name); ok {
			t.Errorf("%q reads as %s", name, u)
		}
	}
}
