//go:build linux

package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// wrong are parts of notes of rows that measured something else.
var wrong = map[string][]string{"edge": {"failed", "status 5", "COUNTED NO DECISION"}, "region": {"100.00 % status 500"}}

// Every row of every benchmark is measured, and somebody decided. What the figures are is not for a test to judge.
func TestMeasuresEveryRow(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	for name, b := range benchmarks {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(proc.Root(t), "dist")); name == "release" && err != nil {
				t.Skip("there is no release: run make release")
			}
			plots := t.TempDir()
			sections := fatal.Get(b.run(t.Context(), rig.Options{Quick: true, Plots: plots, Progress: t.Output()}))(t)
			var out bytes.Buffer
			fatal.If(t, table.Print(&out, b.peer, sections))
			t.Logf("\n%s", &out)
			for _, s := range sections {
				if len(s.Rows) == 0 {
					t.Errorf("%s: no rows", s.Title)
				}
				for _, r := range s.Rows {
					if len(r.Value) == 0 || math.IsNaN(r.Value[0]) || name == "release" && r.Value.Min() <= 0 {
						t.Errorf("%s: %s: not measured", s.Title, r.Name)
					}
					for _, bad := range wrong[name] {
						if strings.Contains(r.Note, bad) {
							t.Errorf("%s: %s: %s", s.Title, r.Name, r.Note)
						}
					}
				}
			}
			if drawn, err := os.ReadDir(plots); name == "shed" && (err != nil || len(drawn) != len(sections)) {
				t.Errorf("%d plots of %d scenarios, %v", len(drawn), len(sections), err)
			}
		})
	}
}
