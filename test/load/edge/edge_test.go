//go:build linux

package edge

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/cache"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

func TestMain(m *testing.M) {
	cache.Serve() // a neighbour is this program started once more
	os.Exit(m.Run())
}

// The cache decides which targets apply: that of the core beside the neighbour, if there is one.
func TestTargetsOfTheMachine(t *testing.T) {
	costs := func(nanos float64) []cache.Point {
		return []cache.Point{{KiB: 256, Nanos: measure.Sample{4}}, {KiB: cache.SlowKiB, Nanos: measure.Sample{nanos}}}
	}
	for _, tc := range []struct {
		machine machine
		target  float64
		kind    string
	}{
		{machine{curve: costs(37)}, 1.4, "much cache (37 ns per load from 4 MiB)"},
		{machine{curve: costs(135)}, 1.9, "little cache (135 ns per load from 4 MiB)"},
		{machine{curve: costs(37), neighbour: &cache.Neighbour{Curve: costs(120)}}, 1.9, "little cache (120 ns per load from 4 MiB)"},
	} {
		b := &bench{machine: tc.machine}
		if _, kind := b.kind(); kind != tc.kind || b.times(1.4, 1.9).Bound != tc.target {
			t.Errorf("%s and a target of %v, want %s and %v", kind, b.times(1.4, 1.9).Bound, tc.kind, tc.target)
		}
	}
}

// Every row of the table is measured, and no request fails. What the figures are
// is not for a test to judge.
func TestEdgeMeasuresEveryRow(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("runs with WEIR_LONG=1, as make test-long does")
	}
	sections, err := Run(t.Context(), rig.Options{Quick: true, Neighbour: runtime.NumCPU() > 1, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := table.Print(&out, "bare", sections); err != nil {
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
			if strings.Contains(r.Note, "failed") || strings.Contains(r.Note, "status 5") ||
				strings.Contains(r.Note, "COUNTED NO DECISION") {
				t.Errorf("%s: %s: %s", s.Title, r.Name, r.Note)
			}
		}
	}
}
