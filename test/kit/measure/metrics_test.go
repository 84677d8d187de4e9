package measure

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

const metricsText = `# HELP weir_requests_total Requests.
# TYPE weir_requests_total counter
weir_requests_total{rule="user",decision="allow"} 40
weir_requests_total{rule="user",decision="deny"} 2 1700000000
weir_requests_total{rule="a } b",decision="allow"} 1
weir_requests_total_other 9
weir_wants_total 1.5e+03
`

func TestMetricsSum(t *testing.T) {
	m, err := ParseMetrics(metricsText)
	if err != nil {
		t.Fatal(err)
	}
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

func TestMetricsSince(t *testing.T) {
	diff := Metrics{"a": 5, "b": 1}.Since(Metrics{"a": 2})
	if diff["a"] != 3 || diff["b"] != 1 {
		t.Errorf("Since = %v, want a:3 b:1", diff)
	}
}

func TestMetricsThatAreNotMetrics(t *testing.T) {
	for _, bad := range []string{"name", "name x", `name{a="b"}`, "<html> </html>"} {
		if m, err := ParseMetrics(bad); err == nil {
			t.Errorf("ParseMetrics(%q) = %v, want an error", bad, m)
		}
	}
}

func TestScrape(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write([]byte(metricsText))
	}))
	defer server.Close()
	m, err := Scrape(t.Context(), server.Client(), server.URL+"/metrics")
	if err != nil || m.Sum("weir_wants_total") != 1500 {
		t.Errorf("Scrape = %v, %v", m, err)
	}
	if m, err := Scrape(t.Context(), server.Client(), server.URL+"/elsewhere"); err == nil {
		t.Errorf("Scrape of a 404 = %v, want an error", m)
	}
}
