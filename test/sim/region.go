package sim

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/test/world"
)

// region is what the referee follows of a region that has a share of limits.
type region struct {
	*world.Region
	w     *World
	apart limit.Micros // by how much at most its clock and the aggregator's were apart
	took  int64        // units of its reserve, all in all
	parts map[leaseID]*part

	mu        sync.Mutex       // of what goroutines of its replicas use
	record    reserve.Record   // the newest that its cell had
	most      reserve.PerMille // the largest share that it ever had
	undecided limit.Micros     // virtual time since when wants are not decided, as the record says; 0: they are
	outages   []outage         // that are over
}

// outage is virtual time in which wants were not decided.
type outage struct{ from, until limit.Micros }

// part is what a region took of its reserve, or by its trickle, in one window.
type part struct {
	window  reserve.Window
	begin   limit.Micros // on the clock of the region's store
	begins  limit.Micros // in virtual time, by that clock when units were first taken
	debt    bool         // a trickle in a window that it had renounced
	granted int64        // and not given back
}

// recordCell has a region's record, with the referee looking at it.
type recordCell struct {
	engine.Cell
	of *region
}

// Cell begins a life of a region's store. Its replicas remember the record that the life before has lost.
func (w *World) Cell(of *world.Region, c engine.Cell) engine.Cell {
	h, _ := of.Notes.(*region)
	if h == nil {
		h = &region{Region: of, w: w, parts: map[leaseID]*part{}}
		of.Notes, w.regions = h, append(w.regions, h)
	}
	return &recordCell{c, h}
}

// Swap is called by goroutines of the region's replicas.
func (s *recordCell) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	h := s.of
	h.mu.Lock()
	defer h.mu.Unlock()
	if spoil := h.w.Fault.record; spoil != nil && next != nil {
		if next = spoil(h, next); next == nil { // it is not stored
			return old, h.Clock(), nil
		}
	}
	found, now, err = s.Cell.Swap(ctx, old, next)
	if err != nil || next == nil || string(found) != string(old) {
		return found, now, err
	}
	h.stored(readRecord(next))
	return found, now, err
}

// virtual is the virtual time at which its clock shows t.
func (h *region) virtual(t limit.Micros) limit.Micros { return t - h.Clock() + h.w.Now() }

// stored follows since when wants are not decided.
func (h *region) stored(r reserve.Record) {
	if r.Cut != h.record.Cut {
		now := h.w.Now()
		if h.undecided != 0 {
			h.outages = append(h.outages, outage{h.undecided, now + recordLate})
		}
		if h.undecided = 0; r.Cut != 0 {
			h.undecided = now
		}
	}
	h.record, h.most = r, max(h.most, r.Share.Part)
}

func readRecord(text []byte) reserve.Record {
	var r reserve.Record
	if err := json.Unmarshal(text, &r); err != nil {
		panic(err)
	}
	return r
}

// apart notes by how much the clocks of regions are apart from the aggregator's.
func (w *World) apart() {
	for _, h := range w.regions {
		d := h.Clock() - w.counters.clock()
		h.apart = max(h.apart, d, -d)
	}
}
