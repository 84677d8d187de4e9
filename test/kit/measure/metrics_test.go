package measure

import (
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

const metricsText = `# HELP weir_requests_total Requests.
# TYPE weir_requests_total counter
weir_requests_total{rule="user",decision="allow"} 40
weir_requests_total{rule="user",decision="deny"} 2
weir_requests_total{rule="a } b",decision="allow"} 1
weir_requests_total_other 9
weir_wants_total 1.5e+03
`

func TestMetricsSum(t *testing.T) {
	m := fatal.Get(parse(metricsText))(t)
	for _, tc := range []struct {
		name string
		with []string
		want float64
	}{
		{"weir_requests_total", nil, 43},
		{"weir_requests_total", []string{`decision="allow"`}, 41},
		{"weir_requests_total", []string{`decision="allow"`, `rule="user"`}, 40},
		{"weir_wants_total", nil, 1500},
		{"weir_wants", nil, 0},
	} {
		if got := m.Sum(tc.name, tc.with...); got != tc.want {
			t.Errorf("Sum(%s, %q) = %v, want %v", tc.name, tc.with, got, tc.want)
		}
	}
}
