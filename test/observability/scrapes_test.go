package observability

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/proc"
)

// fewer is of how many samples of 15 s one is left for a Prometheus that scrapes every 60 s.
const fewer = 4

// scrapedSeldom writes a file of unit tests as it is for a Prometheus that scrapes the same programs every 60 s.
// Tests of other intervals than 15 s, of what takes days, stay as they are.
func scrapedSeldom(t *testing.T, path string) (seldom string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for i, rules := range file["rule_files"].([]any) {
		file["rule_files"].([]any)[i] = filepath.Join(filepath.Dir(path), rules.(string))
	}
	for _, test := range file["tests"].([]any) {
		test := test.(map[string]any)
		if test["interval"] != "15s" {
			continue
		}
		test["interval"] = "1m"
		for _, series := range test["input_series"].([]any) {
			series := series.(map[string]any)
			series["values"] = oneOf(t, series["values"].(string))
		}
	}
	if text, err = yaml.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return proc.WriteFile(t, filepath.Join(t.TempDir(), filepath.Base(path)), string(text))
}

// run is a part of a series in promtool's notation: a value, how much it changes, how often it is repeated.
var run = regexp.MustCompile(`^(_|stale|-?[0-9.]+(?:e[0-9]+)?)([+-][0-9.]+)?(?:x([0-9]+))?$`)

// oneOf keeps the first of every few samples. Of a series that ends, the end stays.
func oneOf(t *testing.T, values string) string {
	t.Helper()
	var kept []string
	n := 0
	add := func(value string) {
		if n%fewer == 0 {
			kept = append(kept, value)
		}
		n++
	}
	for part := range strings.FieldsSeq(values) {
		m := run.FindStringSubmatch(part)
		if m == nil {
			t.Fatalf("%q in %q is no run of samples", part, values)
		}
		times, _ := strconv.Atoi(m[3]) // none: once
		if m[1] == "_" {
			for range max(times, 1) {
				add("_")
			}
			continue
		}
		if m[1] == "stale" {
			for n%fewer != 0 {
				add("_")
			}
			add("stale")
			continue
		}
		value, _ := strconv.ParseFloat(m[1], 64)
		step, _ := strconv.ParseFloat(m[2], 64)
		for i := range times + 1 {
			add(strconv.FormatFloat(value+float64(i)*step, 'f', -1, 64))
		}
	}
	return strings.Join(kept, " ")
}

// What is left of a series is what was there at those times.
func TestOneOf(t *testing.T) {
	for values, want := range map[string]string{
		"0+15x8":              "0 60 120",
		"1x3 2x3 3":           "1 2 3",
		"_x5 7+1x3":           "_ _ 10",
		"1x4 stale":           "1 1 stale",
		"300e6-1x4":           "300000000 299999996",
		"0 1 2 3 4 0.5 1 2 9": "0 4 9",
	} {
		if got := oneOf(t, values); got != want {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
	}
}
