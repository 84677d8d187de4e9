package remote_test

import (
	"bytes"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/remote"
	"github.com/weirlimit/weir/internal/telemetry"
)

// dated is an aggregator with a clock of its own, which its answers show as HTTP servers do.
type dated struct {
	*aggregator
	ahead atomic.Int64 // in nanoseconds
	date  func(time.Time) string
}

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now().Add(time.Duration(d.delay.Load()))
	answer, err := d.aggregator.RoundTrip(r)
	if err == nil {
		answer.Header.Set("Date", d.date(sent.Add(time.Duration(d.ahead.Load()))))
	}
	return answer, err
}

// A replica compares its clock with that of the aggregator's answers, and names one that is wrong.
func TestClockOfTheAggregator(t *testing.T) {
	for name, date := range map[string]func(time.Time) string{
		"dated":     func(at time.Time) string { return at.UTC().Format(http.TimeFormat) },
		"undated":   func(time.Time) string { return "" },
		"malformed": func(time.Time) string { return "today" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *aggregator) {
				d := &dated{aggregator: a, date: date}
				a.delay.Store(int64(75 * time.Millisecond))
				var log bytes.Buffer
				metrics := telemetry.NewRegistry("")
				a.replica("eu", func(c *remote.Config) {
					c.Transport, c.Metrics, c.Log = d, metrics, slog.New(slog.NewTextHandler(&log, nil))
				})
				for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 0} {
					d.ahead.Store(int64(ahead))
					time.Sleep(20 * time.Second)
					got, want := gauge(t, metrics, `weir_clock_offset_seconds{of="aggregator"}`), ahead.Seconds()
					if name == "dated" && !(math.Abs(got-want) <= 0.6) || name != "dated" && !math.IsNaN(got) {
						t.Errorf("ahead by %v s, want %v", got, want)
					}
				}
				synctest.Wait()
				if name != "dated" {
					if log.Len() > 0 {
						t.Errorf("logged without a clock to compare:\n%s", &log)
					}
					return
				}
				if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "address=one ahead=") || strings.Count(text, "agree again") != 1 {
					t.Errorf("want one warning, and that it is over:\n%s", text)
				}
			})
		})
	}
}

// gauge is one of the metrics.
func gauge(t *testing.T, of *telemetry.Registry, name string) float64 {
	t.Helper()
	w := httptest.NewRecorder()
	of.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, rest, _ := strings.Cut(w.Body.String(), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
