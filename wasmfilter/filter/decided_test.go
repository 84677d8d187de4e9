package filter

import (
	"testing"
)

// burst sends so many requests for one key, which wait.
func (e *envoy) burst(n int) (all []*exchange) {
	for range n {
		x := e.send(0, ":path", "/v1/a", "x-user", "ann")
		if !x.paused || x.status != 0 {
			e.t.Fatal("a request does not wait")
		}
		all = append(all, x)
	}
	return all
}

// Many requests that wait are decided at once, whatever decides them: each callback finishes a few, which [envoy.run]
// checks, and then the plugin ticks every millisecond until all are finished.
func TestFewAreFinishedAtOnce(t *testing.T) {
	const waiting = 5*mostFinished + 1
	for name, c := range map[string]struct {
		onFailure string
		decide    func(e *envoy)
		status    int // of all but the first; 0: they pass
	}{
		"denied":             {"deny", func(e *envoy) { e.settle(grantOf(0)) }, 429},
		"granted":            {"deny", func(e *envoy) { e.settle(nil) }, 0},
		"timeout, deny":      {"deny", func(e *envoy) { e.settle(hang) }, 503},
		"timeout, allow":     {"allow", func(e *envoy) { e.settle(hang) }, 0},
		"no next call, deny": {"deny", func(e *envoy) { e.noCall = true; e.settle(reject) }, 503},
		"no next call":       {"allow", func(e *envoy) { e.noCall = true; e.settle(reject) }, 0},
		"deadline":           {"deny", func(e *envoy) { e.pass(200) }, 503},
	} {
		t.Run(name, func(t *testing.T) {
			e := startNew(t, withFields(t, `"on_failure":"`+c.onFailure+`"`), 1)
			all := e.burst(waiting)
			c.decide(e)
			e.hurry(pluginContext)
			for i, x := range all {
				if open := x.paused && x.status == 0; open || i > 0 && x.status != c.status {
					t.Fatalf("request %d: still open %v, status %d, want %d", i, open, x.status, c.status)
				}
			}
			if e.pass(100); e.tickMs != tickEvery {
				t.Errorf("the period of ticks is %d ms after that", e.tickMs)
			}
		})
	}
}

// The plugins of a VM share what is to be finished: a tick of either finishes it. A stream that ends before is not finished, and
// takes no place of another one.
func TestPluginsFinishForEachOther(t *testing.T) {
	e := startNew(t, withFields(t, `"on_failure":"deny"`), 1)
	const second = 2
	e.named = map[uint32]string{second: "other"}
	e.run(0, second, func(g *VM) { g.Configure(second, len(e.config)) })
	all := e.burst(5 * mostFinished)
	e.settle(hang)
	for _, x := range all[mostFinished+1 : 3*mostFinished] { // the first is decided by the first answer, alone
		e.end(x)
	}
	if n := e.hurry(second); n != 2 {
		t.Errorf("%d ticks of the other plugin, want 2", n)
	}
	for i, x := range all {
		if ended := i > mostFinished && i < 3*mostFinished; ended == (x.status > 0) {
			t.Errorf("request %d: ended %v, status %d", i, ended, x.status)
		}
	}
}
