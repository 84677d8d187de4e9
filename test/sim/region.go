package sim

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// region is one that has a share of limits: the store that its replicas have in common, and what the referee
// follows of it. Its replicas are those of the product.
type region struct {
	w       *World
	name    string
	net     *Net         // between its replicas and the aggregator
	wrong   limit.Micros // by how much the clock of its store is ahead of the right time
	counted engine.Store // has the counters of its reserve and its trickle
	apart   limit.Micros // by how much at most that clock and the aggregator's were apart
	took    int64        // units of its reserve, all in all
	parts   map[leaseID]*part

	mu        sync.Mutex // of what goroutines of its replicas use
	cell      engine.Cell
	record    reserve.Record   // that the cell has
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
	debt    bool         // a trickle in a window that it had renounced
	granted int64        // and not given back
	at      limit.Micros // virtual time of the last change
}

func newRegion(w *World, name string) *region {
	h := &region{w: w, name: name, net: new(w.Far), parts: map[leaseID]*part{}}
	h.begin()
	return h
}

// begin gives the region an empty store.
func (h *region) begin() {
	store := memory.New(memory.Config{MaxKeys: h.w.MaxCounters, MaxBytes: 1 << 30, Now: h.clock})
	h.counted = h.w.spoil(store, h.w.Fault.own)
	h.mu.Lock()
	h.cell, h.record = store.NewCell(), reserve.Record{}
	h.mu.Unlock()
}

// clock is that of its store.
func (h *region) clock() limit.Micros { return h.w.wall() + h.wrong }

// virtual is the virtual time at which that clock shows t.
func (h *region) virtual(t limit.Micros) limit.Micros {
	return t - h.wrong - h.w.Start + epochStart
}

// Swap is called by goroutines of its replicas: its store keeps the record.
func (h *region) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if spoil := h.w.Fault.record; spoil != nil && next != nil {
		if next = spoil(h, next); next == nil { // it is not stored
			return old, h.clock(), nil
		}
	}
	found, now, err = h.cell.Swap(ctx, old, next)
	if err != nil || next == nil || string(found) != string(old) {
		return found, now, err
	}
	h.stored(readRecord(next))
	return found, now, err
}

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

// readRecord reads a record as it is stored.
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
		d := h.wrong + w.Start - epochStart - w.counters.step
		h.apart = max(h.apart, d, -d)
	}
}

// forget drops what no check needs any more.
func (h *region) forget() {
	maps.DeleteFunc(h.parts, func(_ leaseID, p *part) bool { return p.at < h.w.now-10*aftermath-2*p.window.Period })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outages = slices.DeleteFunc(h.outages, func(o outage) bool { return o.until < h.w.now-limit.Hour })
}
