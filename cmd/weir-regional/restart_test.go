package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// The counters and the number of PoPs outlive an orderly end, and at a kill all that was saved. A file of another kind is
// replaced. Two processes never use one file.
func TestStateFile(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "sub", "state")
	proc.WriteFile(t, state, "rules: []\n# a file of another kind")
	p := startAs(t, nil, "--state", state)
	if line := p.waitFor("the counters start at zero"); !strings.Contains(line, "no state file of weir-regional") {
		t.Errorf("%s; want what is wrong in it", line)
	}
	for i := range 3 {
		p.acquire(byte('a'+i), 1, 2)
	}
	rules := filepath.Join(filepath.Dir(p.LogPath()), "region.rules.yaml")
	out, err := exec.Command(region.Program(t), "--rules", rules, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--state", state).CombinedOutput()
	for _, want := range []string{fmt.Sprintf("state: %s is in use by process %d", state, p.PID()), "--state off"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("a second process: %v, want %s in %s", err, want, out)
		}
	}
	p.Stop()

	p = startAs(t, nil, "--state", state, "--state-interval", "100ms")
	p.waitFor("loaded counters")
	if r, g := p.acquire('d', 1, 0); g.Remaining != 4 || r.Holders != 3 {
		t.Errorf("%d left of 10, want 4; the first PoP that calls is one of %d, want 3: its share must not be larger than before", g.Remaining, r.Holders)
	}
	proc.Eventually(t, time.Minute, "no save", func() bool { return os.Mkdir(state+".new", 0o700) == nil }) // where the next one would be written
	for seq := range uint64(2) {
		if _, g := p.acquire('e', seq+1, 1); g.Granted != 1 {
			t.Errorf("while nothing can be saved: %v", g)
		}
	}
	proc.Eventually(t, time.Minute, "failures", func() bool { return p.Metrics()["weir_state_errors_total"] > 2 })
	if p.Metrics()["weir_state_ok"] != 0 {
		t.Error("weir_state_ok is not 0")
	}
	fatal.If(t, os.Remove(state+".new"))
	p.waitFor("counters are saved again")
	if n := strings.Count(p.Log(), "cannot save"); n != 1 {
		t.Errorf("a disk that takes nothing is logged %d times", n)
	}
	p.Kill()
	p = startAs(t, nil, "--state", state)
	if _, g := p.acquire('a', 1, 0); g.Remaining != 2 {
		t.Errorf("%d left of 10 after a kill, want 2", g.Remaining)
	}

	p = startAs(t, nil, "--state", "/proc/nowhere/state") // a directory that nobody can make
	p.waitFor("the counters end with this process")
	if code, body := p.Probe("/readyz"); code != 200 {
		t.Errorf("/readyz without a place to save: %d %s", code, body)
	}
}
