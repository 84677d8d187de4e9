//go:build linux

package edge

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// Every row of the table is measured, and no request fails. What the figures are
// is not for a test to judge.
func TestEdgeMeasuresEveryRow(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("runs with WEIR_LONG=1, as make test-long does")
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
