//go:build linux

package region

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("runs with WEIR_LONG=1, as make test-long does")
	}
	only := slices.DeleteFunc(slices.Clone(Parts), func(name string) bool { return name == "middle" })
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
