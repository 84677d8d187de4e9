//go:build linux

package region

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// tiny is a plan for finding out whether the benchmark works, not for figures.
var tiny = plan{
	keys:  100,
	turns: 1, rounds: 1, round: 200 * time.Millisecond, fixed: 200 * time.Millisecond,
	settle: 100 * time.Millisecond, lease: 200 * time.Millisecond,
	acquireTurns: 1, acquire: 100 * time.Millisecond,
	attack: 500 * time.Millisecond,
	stored: 1_000, storedTime: 500 * time.Millisecond,
}

// Every row of the table is measured, and somebody decided. What the figures are
// is not for a test to judge. The parts left out are as others, or take long.
func TestRegionMeasuresEveryRow(t *testing.T) {
	only := slices.DeleteFunc(slices.Clone(Parts), func(name string) bool { return name == "middle" || name == "failover" })
	sections, err := run(t.Context(), Options{Only: strings.Join(only, ",")}, tiny, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := table.Print(&out, "theirs", sections); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &out)
	for _, s := range sections {
		if len(s.Rows) == 0 {
			t.Errorf("%s: no rows", s.Title)
		}
		for _, r := range s.Rows {
			if len(r.Value) == 0 {
				t.Errorf("%s: %s: not measured", s.Title, r.Name)
			}
			if strings.Contains(r.Note, "100.00 % status 500") || strings.Contains(r.Note, "100.00 % undecided") {
				t.Errorf("%s: %s: %s", s.Title, r.Name, r.Note)
			}
		}
	}
}

func TestUnknownPart(t *testing.T) {
	for _, only := range []string{"closd", "closed,", "closed memory"} {
		if _, err := Run(t.Context(), Options{Only: only}, t.Output()); err == nil {
			t.Errorf("Only %q: want an error", only)
		}
	}
}

// A tenth of the limit of the bound is the slow start of the windows that a flood
// of five seconds may lie in.
func TestBoundOfAFlood(t *testing.T) {
	for _, tc := range []struct {
		per  float64
		d    time.Duration
		want float64
	}{
		{1_000_000, 10 * time.Second, 10 + 2*20/10.0},
		{10, 5 * time.Second, 10 + 2*4/5.0},
		{1024, 2 * time.Minute, 10 + 3*10/120.0},
	} {
		f := flood{per: tc.per}
		if got := f.bound(tc.d); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("limit %v, %v: %v calls per second, want %v", tc.per, tc.d, got, tc.want)
		}
	}
}

func TestMinusIsByRank(t *testing.T) {
	got := minus(measure.Sample{9, 5, 7}, measure.Sample{1, 3, 2})
	if want := (measure.Sample{4, 5, 6}); !slices.Equal(got, want) {
		t.Errorf("minus = %v, want %v", got, want)
	}
}

func TestBestOfTheOthers(t *testing.T) {
	s := &services{theirs: &service{name: "theirs"}, cached: &service{name: "cached"}}
	w := &ways{b: &bench{services: s}, by: map[string]map[string]*round.Mode{
		"theirs": {"hot": {CPU: measure.Sample{9}}, "tight": {CPU: measure.Sample{9}}},
		"cached": {"tight": {CPU: measure.Sample{4}}},
	}}
	for name, want := range map[string]float64{"hot": 9, "tight": 4, "uniform": 0} {
		if got := w.best(load{name: name}, func(m *round.Mode) measure.Sample { return m.CPU }).Median(); got != want {
			t.Errorf("%s: best = %v, want %v", name, got, want)
		}
	}
}

// The table shows for each algorithm what its documentation derives, and no
// less than the limit, but for the small bucket: a trace that did not saturate the
// limit would show nothing.
func TestAccuracyRows(t *testing.T) {
	sections, err := accuracy()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sections[0].Rows {
		least := 1.0
		if strings.Contains(r.Name, "burst a tenth") {
			least = 0.1
		}
		if !r.Judge().Reached() || r.Value.Min() < least {
			t.Errorf("%s: %v of the limit", r.Name, r.Value)
		}
	}
}

func TestAFailureOfRedisIsAnError(t *testing.T) {
	fail := func() (err error) {
		defer proc.Recover(&err)
		new(proc.Program).Fatalf("no %s", "server")
		return nil
	}
	if err := fail(); err == nil || err.Error() != "no server" {
		t.Errorf("err = %v", err)
	}
}
