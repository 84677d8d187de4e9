package edge

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// Of a flood beyond a small bucket every worker of a PoP serves its clients: the one that fetches
// what trickles in does not keep it.
func TestWorkersShareWhatTricklesIn(t *testing.T) {
	w := newWorld(t, 4, `{"rules":[{"name":"r","key":[],"limit":{"count":100,"per":"1s","burst":15},"algorithm":"token_bucket"}]}`)
	const trip = 4
	type call struct {
		worker *Worker
		id     uint64
	}
	sent := map[call]lease.Millis{}
	var asked [4][]*Request
	for begin := w.now; w.now < begin+6000; {
		w.now++
		at := int(w.now - begin)
		if at%100 == 0 {
			for _, x := range w.workers {
				x.Tick(w.now, w.wall())
			}
		}
		asked[at%4] = append(asked[at%4], w.request(at%4, "/", "ann"))
		w.collect()
		for i := 0; i < len(w.calls); {
			id := call{w.calls[i].worker, w.calls[i].call.ID}
			if sent[id] == 0 {
				sent[id] = w.now
			}
			if w.now < sent[id]+trip {
				i++
				continue
			}
			w.answer(i)
		}
	}
	for i := range asked {
		admitted := 0
		for _, r := range asked[i] {
			if r.Outcome == Admit {
				admitted++
			}
		}
		if admitted < 50 {
			t.Errorf("worker %d admits %d of some 600", i, admitted)
		}
	}
}
