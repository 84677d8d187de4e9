package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
)

const sharesRules = `
rules:
  - { name: bucket-demand, match: { path: /bucket-demand }, key: [], limit: 500/1s, scope: global, fair: demand, timeout: 1s, on_failure: deny }
  - { name: bucket-equal, match: { path: /bucket-equal }, key: [], limit: 500/1s, scope: global, fair: equal, timeout: 1s, on_failure: deny }
  - { name: window-demand, match: { path: /window-demand }, key: [], limit: 5000/10s, algorithm: fixed_window, scope: global, fair: demand, timeout: 1s, on_failure: deny }
  - { name: window-equal, match: { path: /window-equal }, key: [], limit: 5000/10s, algorithm: fixed_window, scope: global, fair: equal, timeout: 1s, on_failure: deny }
`

// Three regions, 100 ms from the aggregator and back, offer 600, 150 and 50 requests a second
// on a limit of 500. Each gets its part, in proportion to its demand or up to an equal level,
// and the limit holds. The bounds allow for a machine that is late; the log has the figures.
func TestShares(t *testing.T) {
	cases := []struct {
		path  string
		parts [3]float64 // per second
	}{
		{"/bucket-demand", [3]float64{375, 93.75, 31.25}},
		{"/bucket-equal", [3]float64{300, 150, 50}},
	}
	span := 10 * time.Second
	if long {
		span = 30 * time.Second
		cases = append(cases, cases...)
		cases[2].path, cases[3].path = "/window-demand", "/window-equal"
	}
	r := startRegions(t, sharesRules, 100*time.Millisecond, "eu", "us", "ap")
	for _, c := range cases {
		t.Run(c.path[1:], func(t *testing.T) {
			if !long {
				t.Parallel() // limits that have nothing in common
			}
			var results [3]*drive.Result
			var all sync.WaitGroup
			begin := time.Now()
			for i, rate := range []float64{600, 150, 50} {
				all.Go(func() {
					result, err := drive.Run(t.Context(), drive.Load{
						Addrs: []string{r.pops[i].Addr}, Request: drive.Get(c.path), Until: begin.Add(span), PerSecond: rate,
					})
					if err != nil {
						t.Error(err)
						result = new(drive.Result)
					}
					results[i] = result
				})
			}
			all.Wait()
			if t.Failed() {
				return
			}
			sum, figures := int64(0), ""
			for i, result := range results {
				admitted := result.Status[http.StatusOK]
				sum += admitted
				rate := float64(admitted) / time.Since(begin).Seconds()
				figures += fmt.Sprintf(" %.1f/s of %.2f (p99 %v, slowest %v)", rate, c.parts[i],
					result.Latency.Quantile(0.99).Round(100*time.Microsecond), result.Slowest.Round(time.Millisecond))
				if rate < 0.7*c.parts[i] || rate > 1.35*c.parts[i] { // the burst is part of it
					t.Errorf("region %d got %.1f per second, want %.2f", i, rate, c.parts[i])
				}
				if n := result.Status[http.StatusServiceUnavailable] + result.Failed; n > result.Sent()/100 { // a busy machine stands still
					t.Errorf("region %d: %d requests without a decision: %v %v", i, n, result.Status, result.FirstError)
				}
			}
			most := 500 + 500*time.Since(begin).Seconds() + 1
			t.Logf("admitted %.4f of the limit:%s", float64(sum)/most, figures)
			if float64(sum) > most && c.path[1] == 'b' {
				t.Errorf("admitted %d, at most %.0f", sum, most)
			}
		})
	}
}
