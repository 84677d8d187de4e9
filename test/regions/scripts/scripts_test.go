// Package scripts plays the scripts of testdata: `make e2e`. They take minutes and the whole
// machine, so no other target runs them.
package scripts

import (
	"fmt"
	"os"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
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
	scripts := fatal.Get(regions.ReadAll("testdata"))(t)
	var all []regions.Row
	defer func() { write(t, path, all) }()
	w := regions.Start(t, proc.LogDir(t), "regions: { eu: 1, us: 1, ap: 1 }")
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) { all = append(all, play(t, w, s)...) })
	}
}

// mostVoid is how many plays in all may show nothing.
const mostVoid = 3

// play plays a script until its plays decide. What has to hold in every play has no second chance. A machine that
// is busy with something else makes a play short of latency or fairness now and then: two others have to be whole
// then.
func play(t *testing.T, w *regions.World, s *regions.Script) (all []regions.Row) {
	var plays [][]regions.Row
	for void := 0; regions.Decide(plays) == regions.Open; {
		played := w.Play(s)
		rows, name := played.Judge(), fmt.Sprintf("play %d", len(plays)+void+1)
		t.Logf("%s, answered with 200, by second:\n%s", name, played.Seconds())
		for _, r := range rows {
			if len(plays)+void > 0 {
				r.Script = fmt.Sprintf("%s (%s)", s.Name, name)
			}
			all = append(all, r)
		}
		if broken := regions.Broken(rows); len(broken) > 0 {
			report(t, name, broken)
			return all
		}
		if !played.Void() {
			plays = append(plays, rows)
			continue
		}
		t.Logf("%s is void, because the clients had no processor for a second", name)
		if void++; void == mostVoid {
			t.Fatalf("the machine is too busy: the clients had no processor for a second in %d plays", void)
		}
	}
	if regions.Decide(plays) == regions.Failed { // last, where it is found among all that was measured
		for i, rows := range plays {
			report(t, fmt.Sprintf("play %d of %d that count", i+1, len(plays)), rows)
		}
	}
	return all
}

// report fails the test for what was not as it has to be.
func report(t *testing.T, play string, rows []regions.Row) {
	for _, r := range rows {
		if r.Outcome == regions.Fails || r.Outcome == regions.Short {
			t.Errorf("%s: %s: %s, %s %s", play, r.Figure, r.Measured, r.Kind, r.Bound)
		}
	}
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
