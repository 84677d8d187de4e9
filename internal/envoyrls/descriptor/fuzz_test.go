package descriptor_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/test/kit/golden"
)

// FuzzParse: whatever a file holds, it is rejected with a reason or is a configuration that keeps its promises.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"bad_*.yaml", "warn_*.yaml", "example/*.yaml", "example/*/*.yaml"} {
		for _, file := range golden.Files(f, filepath.Join("testdata", pattern)) {
			f.Add(golden.Content(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := descriptor.Parse([]descriptor.File{{Name: "f", Data: data}}, descriptor.Options{})
		if err != nil {
			if c != nil || err.Error() == "" {
				t.Fatalf("config %v with error %q", c, err)
			}
			return
		}
		seen := map[string]bool{}
		for r := range c.Rules() {
			if seen[r.Path] || !utf8.ValidString(r.Path) || !c.Domain(r.Domain) {
				t.Fatalf("path %q: twice %t, of a domain %t", r.Path, seen[r.Path], c.Domain(r.Domain))
			}
			seen[r.Path] = true
			if r.Unlimited != (r.Limit == nil) || !r.Unlimited && r.Unit.Period() == 0 {
				t.Fatalf("%s: unlimited %t with limit %v per %s", r.Path, r.Unlimited, r.Limit, r.Unit)
			}
		}
	})
}

// FuzzMatch: no descriptor does harm, and what is appended is a legal label.
func FuzzMatch(f *testing.F) {
	c := parse(f, `{domain: d, descriptors: [
		{key: a, value: "x*", detailed_metric: true, rate_limit: &any {unit: second, requests_per_unit: 1}},
		{key: a, descriptors: [{key: b, value_to_metric: true, rate_limit: *any}, {key: b, value: "*y*z", share_threshold: true, rate_limit: *any}]}]}`)
	f.Add("d", "a", "x1", "", "")
	f.Add("d", "a", "1", "b", "\xff|\\\x00")
	f.Add("d", "a", "x\u0085", "", "")
	f.Add("d", "a", "1", "b", "ayz")
	f.Fuzz(func(t *testing.T, domain, key1, value1, key2, value2 string) {
		es := []descriptor.Entry{{Key: key1, Value: value1}, {Key: key2, Value: value2}}
		for n := range len(es) + 1 {
			r := c.Match(domain, es[:n])
			if r == nil {
				continue
			}
			metric := r.AppendMetric(nil, es[:n])
			if !utf8.Valid(metric) || strings.ContainsFunc(string(metric), unicode.IsControl) || !strings.HasPrefix(string(metric), "d|a") {
				t.Fatalf("%q has the metric %q", es[:n], metric)
			}
			r.AppendKey(nil, es)
		}
	})
}
