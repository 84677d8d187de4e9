package edge

import (
	"fmt"
	"testing"
)

const slotsRule = `{"rules":[{"name":"streams","key":[{"header":"x-user"}],"limit":5,"algorithm":"concurrency","scope":%q,"on_failure":%q}]}`

// stream is an open stream of a worker.
type stream struct {
	worker  int
	request *Request
}

// A stream that outlives the ttl of its slot keeps it, as long as its worker lives;
// the slots of a worker that dies come back.
func TestSlotsOutliveTTL(t *testing.T) {
	for _, scope := range []string{"region", "pop"} {
		w := newWorld(t, 2, fmt.Sprintf(slotsRule, scope, "deny"))
		for i := range 5 {
			if !w.admit(0, "/", "ann") {
				t.Fatalf("%s: stream %d refused", scope, i)
			}
		}
		for range 60 {
			w.pass(1000)
			w.settle()
			if w.admit(1, "/", "ann") {
				t.Fatalf("%s: a sixth stream was admitted", scope)
			}
		}
		w.workers = w.workers[1:] // the first one dies with its streams
		w.pass(15_000)
		w.settle()
		if !w.admit(0, "/", "ann") {
			t.Errorf("%s: the slots of a dead worker did not come back", scope)
		}
	}
}

// While the region is away, streams count all the same.
func TestSlotsOnFailure(t *testing.T) {
	for action, want := range map[string]int{"allow": 20, "deny": 0, "local": 5} {
		w := newWorld(t, 1, fmt.Sprintf(slotsRule, "region", action))
		admitted := 0
		for range 20 {
			r := w.request(0, "/", "ann")
			for len(w.calls) > 0 {
				w.lose(0, false)
			}
			if r.Outcome == Admit {
				admitted++
			}
		}
		if admitted != want {
			t.Errorf("on_failure %s: %d of 20 streams admitted, want %d", action, admitted, want)
		}
	}
}
