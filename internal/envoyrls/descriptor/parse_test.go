package descriptor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// parse reads a configuration of one file that has no mistake.
func parse(t testing.TB, text string) *descriptor.Config {
	t.Helper()
	return fatal.Get(descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: []byte(text)}}, descriptor.Options{}))(t)
}

// TestBad holds the message of every mistake to the letter.
func TestBad(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/bad_*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, err := descriptor.Parse([]descriptor.File{{Name: filepath.Base(file), Data: golden.Content(t, file)}}, descriptor.Options{})
			var mistakes strict.Errors
			if c != nil || !errors.As(err, &mistakes) || len(mistakes) == 0 {
				t.Fatalf("config %v, error %v: want nothing but mistakes", c, err)
			}
			golden.Same(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// TestWarnings holds every warning to the letter.
func TestWarnings(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/warn_*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c := fatal.Get(descriptor.Parse([]descriptor.File{{Name: filepath.Base(file), Data: golden.Content(t, file)}}, descriptor.Options{}))(t)
			golden.Same(t, strings.TrimSuffix(file, ".yaml")+".txt", c.Warnings().Error()+"\n"+dump(c))
		})
	}
}

// dump writes down everything that a configuration has.
func dump(c *descriptor.Config) string {
	var b strings.Builder
	for _, domain := range c.Domains() {
		fmt.Fprintf(&b, "domain %s\n", domain)
	}
	for r := range c.Rules() {
		fmt.Fprintf(&b, "%s:%d: %s\n    ", filepath.ToSlash(r.File), r.Line, r.Path)
		if r.Unlimited {
			b.WriteString("unlimited")
		} else {
			fmt.Fprintf(&b, "%d per %s", r.RequestsPerUnit, r.Unit)
		}
		fmt.Fprintf(&b, ", shadow %t, quota %t, detailed %t, value %t, share %t", r.Shadow, r.Quota, r.DetailedMetric, r.ValueToMetric, r.SharesThreshold())
		fmt.Fprintf(&b, ", name %q replaces %q\n", r.Name, r.Replaces)
		if r.Metadata != nil {
			text, _ := json.Marshal(r.Metadata)
			fmt.Fprintf(&b, "    metadata %s\n", text)
		}
	}
	return b.String()
}

// TestExample reads a directory as an operator has it, with every field.
func TestExample(t *testing.T) {
	c := fatal.Get(descriptor.Load(filepath.Join("testdata", "example"), descriptor.Options{}))(t)
	if w := c.Warnings(); len(w) > 0 {
		t.Errorf("warnings:\n%s", w.Error())
	}
	golden.Same(t, filepath.Join("testdata", "example.golden"), c.Version()+"\n"+dump(c))
}

// TestLenient reads what YAML 1.1 allows as envoyproxy/ratelimit does.
func TestLenient(t *testing.T) {
	tests := []struct{ name, descriptors, want string }{
		{"a number as value", "{key: code, value: 404, rate_limit: &l {unit: second, requests_per_unit: 1}}", "d|code=404"},
		{"as it is written", "{key: code, value: 0x1F, rate_limit: &l {unit: second, requests_per_unit: 1}}", "d|code=0x1F"},
		{"a boolean as value", "{key: beta, value: True, rate_limit: {unit: second, requests_per_unit: 1}}", "d|beta=True"},
		{"a version as value", "{key: v, value: 1.10, rate_limit: {unit: second, requests_per_unit: 1}}", "d|v=1.10"},
		{"a date as value", "{key: day, value: 2026-01-02, rate_limit: {unit: second, requests_per_unit: 1}}", "d|day=2026-01-02"},
		{"null as value", "{key: k, value: ~, rate_limit: {unit: second, requests_per_unit: 1}}", "d|k"},
		{"an empty value", "{key: k, value: '', rate_limit: {unit: second, requests_per_unit: 1}}", "d|k"},
		{"a number as key", "{key: 7, rate_limit: {unit: second, requests_per_unit: 1}}", "d|7"},
		{"any case of the unit", "{key: k, rate_limit: {unit: sEcOnD, requests_per_unit: 1}}", "d|k"},
		{"underscores", "{key: k, rate_limit: {unit: second, requests_per_unit: 0_0_1}}", "d|k"},
		{"another base", "{key: k, rate_limit: {unit: second, requests_per_unit: 0b1}}", "d|k"},
		{"an alias", "{key: j, descriptors: [&a {key: k, rate_limit: {unit: second, requests_per_unit: 1}}]}, *a", "d|j|k"},
		{"a merge", "{key: k, rate_limit: {<<: {unit: day, requests_per_unit: 1}, unit: second}}", "d|k"},
		{"a list of merges", "{key: k, rate_limit: {<<: [{unit: second}, {unit: day, requests_per_unit: 1}]}}", "d|k"},
		{"the words of YAML 1.1", "{key: k, shadow_mode: no, quota_mode: off, rate_limit: {unlimited: n, unit: second, requests_per_unit: 1}}", "d|k"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for r := range parse(t, "{domain: d, descriptors: ["+test.descriptors+"]}").Rules() {
				if r.Path != test.want || r.RequestsPerUnit != 1 || r.Unit != descriptor.Second || r.Shadow || r.Quota {
					t.Errorf("%s with %d per %s (shadow %t, quota %t), want %s with 1 per second",
						r.Path, r.RequestsPerUnit, r.Unit, r.Shadow, r.Quota, test.want)
				}
				return // the first one
			}
			t.Error("no rule")
		})
	}
}

// TestMetadata reads what a Struct of protobuf can hold.
func TestMetadata(t *testing.T) {
	const config = `
domain: d
descriptors:
  - {key: none, rate_limit: {unlimited: true}, metadata: {}}
  - key: k
    rate_limit: {unlimited: true}
    metadata:
      text: &text {a: "yes", 2: 2026-01-02, true: 'null'}
      truth: [yes, off, true, False, y]
      nothing: [~, null, ]
      numbers: [0, -7, 0x10, 010, 1_000, 1e3, -.5, 18446744073709551615, 99999999999999999999999]
      merged: {<<: [*text, {a: lost, b: kept}], a: given}`
	want := map[string]any{
		"text":    map[string]any{"a": "yes", "2": "2026-01-02", "true": "null"},
		"truth":   []any{true, false, true, false, true},
		"nothing": []any{nil, nil},
		"numbers": []any{0., -7., 16., 8., 1000., 1000., -.5, 18446744073709551615., 1e23},
		"merged":  map[string]any{"a": "given", "2": "2026-01-02", "true": "null", "b": "kept"},
	}
	for r := range parse(t, config).Rules() {
		switch got := r.Metadata; {
		case r.Path == "d|none" && got != nil:
			t.Errorf("%v for none", got)
		case r.Path == "d|k" && !reflect.DeepEqual(got, want):
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
}
