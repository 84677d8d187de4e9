package decision

import (
	"bytes"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
)

// prepareAsks makes the asks: first those of the group, then those outside of it. Without
// together there is no group.
func (r *Request) prepareAsks(together bool) {
	for i := range r.Descriptors {
		r.Descriptors[i].ask = -1
	}
	alone := 0
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		switch {
		case !d.Counted():
		case together && d.Mode == Enforce && !d.check() && !r.repeats(i):
			r.add(d)
			r.asks[d.ask].Group = 1
		default:
			d.alone = true
			alone++
		}
	}
	for begin := len(r.asks); alone > 0; begin = len(r.asks) {
		alone -= r.addRound(begin)
		r.rounds = append(r.rounds, len(r.asks))
	}
	if len(r.rounds) == 0 {
		r.rounds = append(r.rounds, len(r.asks))
	}
}

// repeats reports whether another descriptor has the counter of descriptor i.
func (r *Request) repeats(i int) bool {
	for j := range r.Descriptors {
		if o := &r.Descriptors[j]; j != i && o.Counted() && sameCounter(&r.Descriptors[i], o) {
			return true
		}
	}
	return false
}

// addRound adds the first ask of each counter among those that are yet to be added, and
// returns how many they are. begin is where the round begins in asks.
func (r *Request) addRound(begin int) int {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		added := func(o Descriptor) bool { return o.ask >= begin && sameCounter(d, &o) }
		if d.alone && d.ask < 0 && !slices.ContainsFunc(r.Descriptors[:i], added) {
			r.add(d)
		}
	}
	return len(r.asks) - begin
}

// add makes the ask of a descriptor.
func (r *Request) add(d *Descriptor) {
	d.ask = len(r.asks)
	r.asks = append(r.asks, engine.Ask{
		Policy: d.Policy,
		Key:    d.Key,
		Want:   lease.Want{Need: d.Hits, Waiting: d.Hits, Want: d.Hits},
	})
}

func sameCounter(a, b *Descriptor) bool {
	return a.Policy.Same(b.Policy) && bytes.Equal(a.Key, b.Key)
}
