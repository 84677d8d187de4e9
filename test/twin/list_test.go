package twin

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// unreachable are the differences that no configuration or request of the grammar shows,
// each with the reason.
var unreachable = []struct{ text, why string }{
	{"**When Redis fails**", "Redis does not fail here"},
	{"Beside a rule in quota or shadow mode that is over", "envoyproxy/ratelimit runs with its default, without STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"},
	{"Two rules never share a counter", "no file changes, and no two rules of one have the same keys and values"},
	{"Limits of two units never share a counter", "no two windows of a scenario that differ in length begin at the same time (longUnit)"},
	{"Descriptors are matched by pairs", "no key or value has an underscore"},
	{"`detailed_metric` and `value_to_metric` keep", "metrics are not compared, and rules have no metadata"},
	{"A request's `limit` may have a `unit_multiplier`", "limits in requests have none"},
	{"Errors over HTTP", "all requests are gRPC"},
	{"`/rlconfig` is on", "all requests are gRPC"},
	{"`--ratelimit-metrics` adds", "metrics are not compared"},
	{"**A header that is not UTF-8", "envoyproxy/ratelimit does not answer it"},
	{"All mistakes are reported at once", "configurations have no mistake"},
	{"At most 10,000 files", "configurations are small"},
	{"A directory without files", "there are files, and all can be read"},
	{"Files are read in the order of their paths", "each domain has one file"},
	{"A fraction of `requests_per_unit`", "all are whole"},
	{"Unchanged:", "it is no difference"},
}

// differences are the points and paragraphs of the list in the README.
func differences(t *testing.T) (all []string) {
	t.Helper()
	readme, err := os.ReadFile("../../internal/envoyrls/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(readme), "## What is different, on purpose\n")
	list, _, _ = strings.Cut(list, "\n## ")
	list = strings.ReplaceAll(list, "\n- ", "\n\n- ")
	for point := range strings.SplitSeq(list, "\n\n") {
		point = strings.TrimPrefix(strings.Join(strings.Fields(point), " "), "- ")
		if point != "" && len(strings.Fields(point)) > 1 { // no heading
			all = append(all, point)
		}
	}
	if len(all) < 20 {
		t.Fatalf("the list has %d points", len(all))
	}
	return all
}

// Each point of the list is known here, and has either a line or a reason why there is none.
func TestListIsComplete(t *testing.T) {
	list := differences(t)
	for _, point := range list {
		known := slices.ContainsFunc(lines, func(l line) bool { return strings.Contains(point, l.text) })
		if why := slices.ContainsFunc(unreachable, func(u struct{ text, why string }) bool { return strings.HasPrefix(point, u.text) }); known == why {
			t.Errorf("known by a line: %t, not reachable: %t: %s", known, why, point)
		}
	}
	for _, u := range unreachable {
		if u.why == "" || !slices.ContainsFunc(list, func(point string) bool { return strings.HasPrefix(point, u.text) }) {
			t.Errorf("the list does not have %q (%s)", u.text, u.why)
		}
	}
}
