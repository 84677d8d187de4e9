package edge

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

const slotsRule = `{"rules":[{"name":"streams","key":[{"header":"x-user"}],"limit":5,"algorithm":"concurrency","scope":%q,"on_failure":%q}]}`

// However streams begin and end on several workers, no more than the limit are open
// at a time, and a slot that came back can be had again.
func TestSlots(t *testing.T) {
	for _, scope := range []string{"region", "pop"} {
		t.Run(scope, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t, 3, fmt.Sprintf(slotsRule, scope, "deny"))
				var open []stream
				for range rapid.IntRange(1, 80).Draw(t, "steps") {
					open = w.slotsStep(t, open)
					if len(open) > 5 {
						t.Fatalf("%d streams are open, the limit is 5", len(open))
					}
				}
				for _, s := range open {
					w.workers[s.worker].End(w.now, s.request)
				}
				for range 30 {
					w.pass(1000)
					w.settle()
				}
				if !w.admit(0, "/", "ann") {
					t.Fatal("no slot is free although no stream is open")
				}
			})
		})
	}
}

// stream is an open stream of a worker.
type stream struct {
	worker  int
	request *Request
}

func (w *world) slotsStep(t *rapid.T, open []stream) []stream {
	w.now += 20
	switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
	case step < 2:
		worker := rapid.IntRange(0, 2).Draw(t, "worker")
		r := w.request(worker, "/", "ann")
		w.settle()
		if r.Outcome == Admit {
			open = append(open, stream{worker, r})
		}
	case step < 4 && len(open) > 0:
		i := rapid.IntRange(0, len(open)-1).Draw(t, "stream")
		w.workers[open[i].worker].End(w.now, open[i].request)
		open = append(open[:i], open[i+1:]...)
	case step == 4:
		w.pass(3000)
		w.settle()
	}
	return open
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
