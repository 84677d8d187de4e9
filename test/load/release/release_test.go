//go:build linux

package release

import (
	"bytes"
	"os"
	"testing"

	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// Every row of the table is measured. What the figures are is not for a test to judge.
func TestReleaseMeasuresEveryRow(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("runs with WEIR_LONG=1 where make release was, as make test-long does")
	}
	sections, err := Run(t.Context(), rig.Options{Quick: true, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := table.Print(&out, "bare", sections); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &out)
	if len(sections) != 4 {
		t.Errorf("%d sections, want one of each program and of the filter", len(sections))
	}
	for _, s := range sections {
		for _, r := range s.Rows {
			if len(r.Value) == 0 || r.Value.Min() <= 0 {
				t.Errorf("%s: %s: not measured", s.Title, r.Name)
			}
		}
	}
}
