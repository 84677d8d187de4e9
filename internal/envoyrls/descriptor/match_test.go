package descriptor_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
)

// entries reads "key=value, key=value"; a key without = has the empty value.
func entries(text string) []descriptor.Entry {
	var es []descriptor.Entry
	for part := range strings.SplitSeq(text, ", ") {
		key, value, _ := strings.Cut(part, "=")
		es = append(es, descriptor.Entry{Key: key, Value: value})
	}
	return es
}

// TestNoMatch: what is not there is allowed, and nothing that is asked is a mistake.
func TestNoMatch(t *testing.T) {
	c := parse(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 0}}]")
	for _, test := range []struct {
		domain  string
		entries []descriptor.Entry
	}{
		{"", nil}, {"d", nil}, {"e", entries("k=1")}, {"d", []descriptor.Entry{{}}}, {"d", make([]descriptor.Entry, 1000)},
		{"d", []descriptor.Entry{{Key: "", Value: "k"}}},
	} {
		if r := c.Match(test.domain, test.entries); r != nil {
			t.Errorf("%q %v: %v", test.domain, test.entries, r)
		}
	}
	r := c.Match("d", entries("k=1"))
	if r == nil || r.RequestsPerUnit != 0 || r.Limit == nil || r.Limit.Spec().Count != 0 {
		t.Errorf("requests_per_unit 0: %v, want a limit that denies everything", r)
	}
	if got := r.AppendKey(r.AppendMetric(nil, nil), nil); string(got) != "d|k" {
		t.Errorf("without the entries: %q", got) // no use, but no panic
	}
}

// TestMatchAllocates nothing, whatever the level is found by.
func TestMatchAllocates(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [{key: a, value: x, descriptors: [{key: b, value: "y*z*", descriptors: [
		{key: c, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}]}]}]}`)
	es, dst := entries("a=x, b=yzz, c=w"), make([]byte, 0, 100)
	allocs := testing.AllocsPerRun(100, func() {
		r := c.Match("d", es)
		if r == nil {
			t.Fatal("no rule")
		}
		dst = r.AppendMetric(r.AppendKey(dst[:0], es), es)
	})
	if allocs != 0 || string(dst) != "yzz|wd|a=x|b=yzz|c=w" {
		t.Errorf("%v allocations, %q", allocs, dst)
	}
}
