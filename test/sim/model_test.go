package sim

import (
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

func newRule(t testing.TB, name string, s limit.Spec, c lease.Consistency) *Rule {
	t.Helper()
	l, err := limit.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return &Rule{Name: name, Spec: s, Consistency: c, Limit: l}
}

// TestMain collects garbage less often: runs leave much of it, and little that lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// bubble plays a run that may have relays, in virtual time.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// modelRow is a line of the executable model of the grant and ask rules: one
// key, 4 ms between holder and granter and back, Poisson arrivals.
type modelRow struct {
	algorithm              limit.Algorithm
	count                  int64
	period                 limit.Micros
	holders, active        int
	offered                float64 // requests per second, over the active holders
	admitted, waited, asks float64 // share of what one exact limiter admits; of requests; per second and active holder
}

var modelRows = []modelRow{
	{limit.FixedWindow, 1000, limit.Minute, 2, 1, 8, 0.975, 0.003, 1.10},
	{limit.FixedWindow, 10, limit.Second, 2, 2, 30, 1.000, 0.255, 8.63},
	{limit.FixedWindow, 500, limit.Second, 2, 1, 1500, 1.000, 0.023, 23.60},
	{limit.FixedWindow, 500, limit.Second, 100, 100, 1500, 1.000, 0.245, 8.39},
	{limit.FixedWindow, 500, limit.Minute, 2, 2, 25, 1.000, 0.094, 4.12},
	{limit.FixedWindow, 100000, limit.Minute, 2, 1, 5000, 1.000, 0.000, 8.60},
	{limit.TokenBucket, 1000, limit.Minute, 2, 1, 8, 0.996, 0.001, 0.97},
	{limit.TokenBucket, 10, limit.Second, 2, 2, 30, 0.994, 0.086, 6.37},
	{limit.TokenBucket, 500, limit.Second, 2, 1, 1500, 0.998, 0.001, 10.13},
	{limit.TokenBucket, 500, limit.Second, 100, 100, 1500, 0.997, 0.074, 6.02},
	{limit.TokenBucket, 500, limit.Minute, 2, 2, 25, 1.000, 0.096, 5.00},
	{limit.TokenBucket, 100000, limit.Minute, 2, 1, 5000, 1.000, 0.000, 11.21},
	{limit.SlidingWindow, 1000, limit.Minute, 2, 1, 8, 0.975, 0.003, 1.10},
	{limit.SlidingWindow, 10, limit.Second, 2, 2, 30, 0.875, 0.390, 11.35},
	{limit.SlidingWindow, 500, limit.Second, 2, 1, 1500, 0.966, 0.424, 91.37},
	{limit.SlidingWindow, 500, limit.Second, 100, 100, 1500, 0.995, 0.494, 12.84},
	{limit.SlidingWindow, 500, limit.Minute, 2, 2, 25, 0.997, 0.257, 4.32},
	{limit.SlidingWindow, 100000, limit.Minute, 2, 1, 5000, 0.997, 0.032, 10.74},
}

// TestReproducesModel holds the real code to the figures of the model.
func TestReproducesModel(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	t.Logf("%-13s %9s %7s %6s %7s | %17s | %17s | %17s", "algorithm", "limit", "holders", "active", "offered", "admitted (model)", "waited (model)", "asks/s (model)")
	for _, row := range modelRows {
		got, err := row.run(t)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%-13s %6d/%-2ds %7d %6d %7.0f | %8.3f (%6.3f) | %8.3f (%6.3f) | %8.2f (%6.2f)",
			row.algorithm, row.count, row.period/limit.Second, row.holders, row.active, row.offered,
			got.admitted, row.admitted, got.waited, row.waited, got.asks, row.asks)
		if got.admitted < min(row.admitted, 1)-0.01 {
			t.Errorf("%.3f admitted, %.3f by the model", got.admitted, row.admitted)
		}
		if got.waited > 1.2*row.waited+0.05 {
			t.Errorf("%.3f waited, %.3f in the model", got.waited, row.waited)
		}
		if got.asks > 1.25*row.asks+0.5 {
			t.Errorf("%.2f asks a second, %.2f in the model", got.asks, row.asks)
		}
	}
}

func (row modelRow) run(t *testing.T) (got modelRow, err error) {
	spec := limit.Spec{Algorithm: row.algorithm, Count: row.count, Period: row.period}
	if row.algorithm == limit.TokenBucket && row.period == limit.Second && row.count > 10 {
		spec.Burst = row.count * 15 / 100
	}
	d := 30 * limit.Second
	if row.period == limit.Minute {
		d = 4 * limit.Minute
		if row.count == 100_000 {
			d = 90 * limit.Second
		}
	}
	r := newRule(t, "r", spec, lease.Leased)
	w := New(Config{Seed: 1, PoPs: row.holders, Net: Net{Delay: 2 * limit.Millisecond}}, r)
	for i := range row.active {
		w.Offer(i+1, Load{Rate: row.offered / float64(row.active), Parts: Key(r, "k", 1)}, d)
	}
	err = w.Run(d)
	n := w.Totals(r, "k")
	got.admitted = float64(n.Admitted) / float64(n.Exact)
	got.waited = float64(n.Waited) / float64(n.Requests)
	got.asks = float64(n.Asks) / (float64(d) / float64(limit.Second)) / float64(row.active)
	return got, err
}
