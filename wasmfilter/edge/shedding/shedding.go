// Package shedding is a worker's part in the shed rules of its PoP: which requests it rejects while the upstream is
// overloaded.
//
// A worker rejects a request if the share of its class is used up, or by the ratio that follows from the duration of the
// overload, see [shed]. The workers of a PoP agree on both through a record for each rule in the [table.Store], which they
// change by compare-and-set:
//
//   - Each worker counts its own requests in flight. Before it admits more, it claims capacity in its row, so the
//     claims of all workers never exceed the capacity. A claim is a little more than the requests in flight, so few
//     requests read the record. Unused capacity is free again at the worker's next tick; until then others may reject
//     requests for lack of it.
//   - The duration of the overload is one number. At a tick, or when a claim is used up, a worker updates it if no other
//     worker has done so lately.
//
// Each worker remembers the recent requests and keys by itself, and rejects the ratio of its own requests.
//
// The package is pure. Nothing in it is safe for concurrent use; each worker has its own.
package shedding

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
)

// Rules are a worker's parts of all shed rules.
type Rules struct {
	pop     *pop.PoP
	all     []*Rule // in force, or gone lately, or gone with requests in flight
	inForce []*Rule // by rule of the set; nil: it is no shed rule, or off

	responses uint // of requests with a shed rule, since the last tick
	record    record
	buffer    []byte
}

// New returns those of a worker without rules.
func New(p *pop.PoP) *Rules { return &Rules{pop: p} }

// Use has the rules of a set be in force. What is in flight by a rule with the same name goes on to count.
func (b *Rules) Use(set *rule.Set, counts func(name string) *rulebook.RuleCounts) {
	for _, r := range b.all {
		r.of = nil
	}
	b.inForce = make([]*Rule, set.Len())
	for i := range b.inForce {
		if of := set.Rule(i); of.Shed != nil && of.Mode != rule.Off {
			r := b.named(of.Name)
			r.counts = counts(of.Name)
			r.use(of)
			b.inForce[i] = r
		}
	}
}

// named returns the part with a name, which is made if there is none.
func (b *Rules) named(name string) *Rule {
	for _, r := range b.all {
		if r.Name == name {
			return r
		}
	}
	r := &Rule{Name: name, rules: b, key: []byte("shed1:" + name)}
	b.all = append(b.all, r)
	return r
}

// Of returns the part of a rule of the set in force, by its number there.
func (b *Rules) Of(i int) *Rule { return b.inForce[i] }

// Tick does what is due without a request; the owner calls it every 100 ms. A rule that is gone shows zeros before it is
// forgotten.
func (b *Rules) Tick(now lease.Millis) {
	b.responses = 0
	kept := b.all[:0]
	for _, r := range b.all {
		if r.of != nil {
			r.tick(now)
		} else if r.inFlight == 0 && r.Utilization+r.Ratio == 0 {
			continue
		} else {
			r.Utilization, r.Ratio = 0, 0
		}
		kept = append(kept, r)
	}
	clear(b.all[len(kept):])
	b.all = kept
}

// Each calls f with each rule in force, and with those that are gone until they have shown zeros.
func (b *Rules) Each(f func(*Rule)) {
	for _, r := range b.all {
		f(r)
	}
}

// sampled is how many responses between two ticks there are for each that is looked at, the first one among them: where few come,
// most are, or one of 16 would not be enough to tell whether the upstream is well.
const sampled = 16

// Samples reports whether the response to a request that is held is looked at.
func (b *Rules) Samples(held []Held) bool {
	if len(held) == 0 {
		return false
	}
	b.responses++
	return b.responses%sampled == 1
}

// Responded takes a response: whether it is a failure, and the load that the upstream states in it, per mille; -1: none.
func (b *Rules) Responded(now lease.Millis, held []Held, failed bool, load int64) {
	for i := range held {
		h := &held[i]
		h.rule.responses.Add(int64(now), h.cohort, failed, load)
	}
}
