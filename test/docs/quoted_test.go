package docs

import (
	"regexp"
	"strings"
	"testing"
)

// quoted is a figure that a page takes from another one, where it was measured. Both expressions have as many groups,
// which must be alike.
type quoted struct{ page, statement, source, measured string }

// Pages that quote what was measured state what the page states that has the measurement.
func TestQuotedFigures(t *testing.T) {
	const choosing, edge, regions = "docs/choosing.md", "docs/benchmarks.md", "docs/regions.md"
	n := `([\d.]+)`
	three := n + ` / ` + n + ` / ` + n
	for _, q := range []quoted{
		{frontPage, `a request takes ` + n + ` µs \| \+ ` + n + ` µs \|`, edge, "bare Envoy \\| " + n + " \\|.*?`local_ratelimit`, allowing / refusing \\| [\\d. /]+ \\| \\+" + n},
		{frontPage, `not measured \| \+ ` + n + ` µs with one hot key, \+ ` + n + ` µs with`, edge, `Weir, one rule with response headers, one key / 10,000 keys \| [\d ./]+ \| \+` + n + ` / \+` + n},
		{frontPage, n + ` % .Zipf`, edge, `Zipf traffic: decisions that wait for the region \| ` + n},
		{frontPage, `each of its calls ¹ \| – \| ` + three + ` µs`, edge, `CPU of the service: 10,000 keys / one hot key / nearly all denied, µs \| ` + n + ` / ` + n + ` / ` + n + ` \|`},
		{frontPage, `each of its calls ¹ \|[^|]+\|[^|]+\| ` + three, edge, `CPU of the service: 10,000 keys / one hot key / nearly all denied, µs \| [^|]+ \| ` + n + ` / ` + n + ` / ` + n + ` \|`},
		{frontPage, `1,500 calls a second ¹ \| – \| ` + three + ` ms`, edge, `p99, ms \| ` + n + ` / ` + n + ` / ` + n + ` \|`},
		{frontPage, `1,500 calls a second ¹ \|[^|]+\|[^|]+\| ` + three + ` ms`, edge, `p99, ms \| [^|]+ \| ` + n + ` / ` + n + ` / ` + n + ` \|`},
		{frontPage, `no request took more than ` + n + ` s`, regions, `Redis master killed for 3 s, a region's own limit[^|]+\| none \| ` + n + ` s`},
		{choosing, `could use ` + n + ` and ` + n + ` % of the limit, and quiet`, regions, `5000/10s, .sliding_window. \| ` + n + ` and ` + n + ` %`},
		{choosing, `regions share it: clients could use ` + n + ` %`, regions, `5000/10s, .fixed_window., the default \| ` + n + ` %`},
		{choosing, `up to ` + n + ` % of the limit in the worst period`, "docs/simulator.md", `.token_bucket. \| 10 ms \| [\d.]+ / ` + n},
		{choosing, n + ` bytes of Redis per key with 100 requests`, edge, `bytes of Redis per key[^|]+\| [^|]+\| [^|]+\| [^|]+\| ` + n},
		{choosing, `where a sliding window takes ` + n + `\.`, edge, `bytes of Redis per key[^|]+\| [^|]+\| [^|]+\| ` + n},
		{choosing, n + ` bytes of Redis per key with 50 slots`, edge, `bytes of Redis per key[^|]+\| [^|]+\| [^|]+\| [^|]+\| [^|]+\| ` + n},
		{choosing, `could use ` + n + ` and ` + n + ` % \|`, regions, `5000/10s, .sliding_log. \| ` + n + ` and ` + n + ` %`},
		{choosing, `takes ` + n + ` µs of Redis`, edge, `CPU of Redis per acquire[^|]+\| [^|]+\| ` + n + ` /`},
		{choosing, `Zipf traffic ` + n + ` % of the requests`, edge, `Zipf traffic: decisions that wait for the region \| ` + n},
		{choosing, n + ` to ` + n + ` % of a window or bucket`, regions, `500/1s, .fair: equal. \| ` + n + ` %.*?5000/10s, .fair: demand. \| ` + n},
		{choosing, `of ([\d,]+) requests at most (\d+) waited`, regions, `requests that waited after 2 s, of ([\d,]+).*?\| (\d+) \| 0 \|\n\| 5000/10s, .fair: equal`},
		{choosing, `for 3 s, ` + n + ` to ` + n + ` % of the limit passed in that window, and ` + n, regions, `a region's own limit[^|]+\| none \|[^|]+\| ` + n + ` to ` + n + ` %; ` + n + ` % in the next`},
	} {
		got := regexp.MustCompile(`(?s)` + q.statement).FindStringSubmatch(read(t, q.page))
		want := regexp.MustCompile(`(?s)` + q.measured).FindStringSubmatch(read(t, q.source))
		switch {
		case got == nil:
			t.Errorf("%s has no statement like %s any more: correct that here", q.page, q.statement)
		case want == nil:
			t.Errorf("%s has nothing like %s", q.source, q.measured)
		case strings.Join(got[1:], " ") != strings.Join(want[1:], " "):
			t.Errorf("%s: %q, but %s has %q", q.page, got[0], q.source, want[0])
		}
	}
}
