package aggregator

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

const (
	// nodesApart is by how much the clock of the node that decides on an ask may be apart from this aggregator's time, with
	// the time that the ask is on its way.
	nodesApart = limit.Second
	// nodesApartAhead is that with a lease on the next window.
	nodesApartAhead = limit.Second / 2
)

// without is the policy by which an ask is decided: of a part of the limit, while regions may use the rest.
func (r *reserves) without(a *engine.Ask) *engine.Policy {
	p := a.Policy
	if r.config.Cell == nil || !p.HasShares() {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.table.Regions) == 0 {
		return p
	}
	at, _ := r.time(r.config.Steady())
	w, ahead := reserve.WindowOf(p.Limit.Spec()), nodesApart
	if a.Want.Next {
		ahead = max(ahead, limit.Micros(p.Terms.Lead+p.Terms.Interval)*limit.Millisecond+nodesApartAhead)
	}
	part := r.table.WithheldBetween(w, w.Begin(max(0, at-nodesApart)), w.Begin(at+ahead))
	if part == 0 {
		return p
	}
	return r.smaller.Of(p, part, (*engine.Policy).Without)
}
