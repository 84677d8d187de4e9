package measure

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/page"
)

// Metrics is one reading of a process's counters and gauges: series as written
// in the Prometheus text format, such as `a_total{b="c"}`, to their values.
type Metrics map[string]float64

// Scrape reads the metrics at url.
func Scrape(ctx context.Context, client *http.Client, url string) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	text, err := page.Read(ctx, client, url)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return parse(string(text))
}

// Page has the metrics that a handler of this process serves, as text.
func Page(h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Of reads the metrics that a handler of this process serves.
func Of(h http.Handler) Metrics {
	m, _ := parse(Page(h)) // a registry has no other lines
	return m
}

// Has demands lines of the metrics that a handler of this process serves.
func Has(t testing.TB, h http.Handler, lines ...string) {
	t.Helper()
	text := Page(h)
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
}

// parse reads the Prometheus text format, as it is without timestamps.
func parse(text string) (Metrics, error) {
	m := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[end+1:], 64)
		if end < 0 || err != nil {
			return nil, fmt.Errorf("metrics: %q has no value", line)
		}
		m[line[:end]] += v
	}
	return m, nil
}

// Sum adds up the series of one name whose labels contain every one of with,
// each written as in the text: `decision="allow"`.
func (m Metrics) Sum(name string, with ...string) float64 {
	var sum float64
series:
	for series, v := range m {
		labels, found := strings.CutPrefix(series, name)
		if !found || labels != "" && labels[0] != '{' {
			continue
		}
		for _, label := range with {
			if !strings.Contains(labels, label) {
				continue series
			}
		}
		sum += v
	}
	return sum
}
