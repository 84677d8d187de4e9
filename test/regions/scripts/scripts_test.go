// Package scripts plays the scripts of testdata: `make e2e`. They take minutes and the whole
// machine, so no other target runs them.
package scripts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/regions"
)

// figuresEnv names the file to which the figures of all scripts are written.
const figuresEnv = "WEIR_FIGURES"

// TestScripts plays all scripts in one world, one after the other.
func TestScripts(t *testing.T) {
	if os.Getenv(figuresEnv) == "" {
		t.Skip("`make e2e` plays the scripts")
	}
	scripts := fatal.Get(regions.ReadAll("testdata"))(t)
	var all []regions.Row
	defer func() { write(t, all) }()
	w := regions.Start(t, regions.Config{Dir: proc.LogDir(t), Rules: "regions: { eu: 1, us: 1, ap: 1 }"})
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
	for number, short, whole, void := 1, 0, 0, 0; ; number++ {
		played := w.Play(s)
		rows := played.Judge()
		t.Logf("play %d, answered with 200, by second:\n%s", number, played.Seconds())
		outcomes := map[regions.Outcome]int{}
		for _, r := range rows {
			if outcomes[r.Outcome]++; r.Outcome != regions.Holds {
				t.Logf("play %d: %s: %s, %s %s", number, r.Figure, r.Measured, r.Kind, r.Bound)
			}
			if number > 1 {
				r.Script = fmt.Sprintf("%s (play %d)", s.Name, number)
			}
			all = append(all, r)
		}
		switch {
		case outcomes[regions.Fails] > 0:
			t.Errorf("play %d broke what has to hold in every play", number)
			return all
		case played.Void():
			t.Logf("play %d is void, because the clients had no processor for a second", number)
			void++
		case outcomes[regions.Short] > 0:
			short++
		default:
			whole++
		}
		switch {
		case whole == 1 && short == 0 || whole == 2:
			return all
		case short == 2:
			t.Error("two plays were short of what is expected")
			return all
		case void == mostVoid:
			t.Fatal("the machine is too busy")
		}
	}
}

// write adds the figures to the file, as a table.
func write(t *testing.T, rows []regions.Row) {
	t.Helper()
	var table strings.Builder
	fatal.If(t, regions.Print(&table, rows))
	proc.Figure(t, "%s", &table)
}
