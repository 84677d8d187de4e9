package measure

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	return ParseMetrics(string(text))
}

// ParseMetrics reads the Prometheus text format. It keeps what is needed here:
// series and values; comments and timestamps are dropped.
func ParseMetrics(text string) (Metrics, error) {
	m := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, '}') + 1
		if end == 0 {
			end = strings.IndexByte(line, ' ')
		}
		if end <= 0 {
			return nil, fmt.Errorf("metrics: %q has no value", line)
		}
		fields := strings.Fields(line[end:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("metrics: %q has no value", line)
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
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
