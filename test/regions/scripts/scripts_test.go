// Package scripts plays the scripts of testdata: `make e2e`. They take minutes and the whole
// machine, so no other target runs them.
package scripts

import (
	"fmt"
	"os"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/regions"
)

// figuresEnv names the file to which the figures of all scripts are written.
const figuresEnv = "WEIR_FIGURES"

// TestScripts plays all scripts in one world, one after the other.
func TestScripts(t *testing.T) {
	path := os.Getenv(figuresEnv)
	if path == "" {
		t.Skip("`make e2e` plays the scripts")
	}
	scripts, err := regions.ReadAll("testdata")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := regions.Document(scripts)
	if err != nil {
		t.Fatal(err)
	}
	var all []regions.Row
	defer func() { write(t, path, all) }()
	w := regions.Start(t, proc.LogDir(t), rules)
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) { all = append(all, play(t, w, s)...) })
	}
}

// most is how often a script is played at most.
const most = 3

// play plays a script until each promise has held once: a machine that is busy with something else breaks
// one now and then. What an expectation fails at must hold in all plays.
func play(t *testing.T, w *regions.World, s *regions.Script) (all []regions.Row) {
	var plays [][]regions.Row
	var failures []string
	for void := 0; len(plays) == 0 || len(regions.Lacking(plays)) > 0 && len(plays) < most && len(failures) == 0; {
		played := w.Play(s)
		rows := played.Judge()
		if played.Void() {
			t.Logf("void, because the clients had no processor for a second: %+v\n%s", rows, played.Seconds())
			if void++; void == most {
				t.Fatalf("the machine is too busy: the clients had no processor for a second in %d plays", void)
			}
			continue
		}
		plays = append(plays, rows)
		for _, r := range rows {
			if t.Logf("play %d: %+v", len(plays), r); r.Outcome == regions.Fails {
				failures = append(failures, fmt.Sprintf("play %d: %s: %s, want %s", len(plays), r.Figure, r.Measured, r.Promise))
			}
			if len(plays) > 1 {
				r.Script = fmt.Sprintf("%s (play %d)", s.Name, len(plays))
			}
			all = append(all, r)
		}
		t.Logf("answered with 200, by second:\n%s", played.Seconds())
	}
	for _, r := range regions.Lacking(plays) {
		failures = append(failures, fmt.Sprintf("%s: not %s in %d plays", r.Figure, r.Promise, len(plays)))
	}
	for _, f := range failures { // last, where they are found among all that was measured
		t.Error(f)
	}
	return all
}

// write writes the figures as a table.
func write(t *testing.T, path string, rows []regions.Row) {
	f, err := os.Create(path)
	if err == nil {
		err = regions.Print(f, rows)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
