// Package decision decides the descriptors of one request: which are over their limit, how much is left, and whether the
// request is rejected.
//
//	descriptors with their limits ─▶ asks, in rounds ─▶ Judge ─▶ over or not, units left
//
// A request is one group of asks: if one of its descriptors is over its limit, none is charged. (With [Decider.ChargeRejected]
// there is no group, and each descriptor is charged separately.) These asks are alone, outside of the group:
//
//   - checks (a descriptor with 0 hits): the answer has the units left, and nothing is charged;
//   - rules in shadow mode, which reject nothing;
//   - rules in quota mode, which reject a request only if all of its quotas are over;
//   - descriptors that name one counter.
//
// Their charges are returned if the request is rejected. Asks for one counter are in different rounds, so the store decides
// them in order.
package decision

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/engine"
)

// Mode is what happens when a descriptor is over its limit.
type Mode uint8

// The modes. All descriptors of a counter have the same.
const (
	Enforce Mode = iota // the request is rejected
	Quota               // the request is rejected if all quotas are over
	Shadow              // nothing
)

// Descriptor is one descriptor of a request.
type Descriptor struct {
	Policy *engine.Policy // nil: unlimited, or there is no rule
	Key    []byte         // of its counter
	Hits   int64          // what it costs; 0: it checks what is left
	Mode   Mode
	// IsQuota is set if the descriptor is one of the quotas of the request: one quota that
	// is not over lets the request pass. In shadow mode a quota is never over.
	IsQuota  bool
	Replaced bool // by the rule of another descriptor: it is not counted

	// Over is set by [Decider.Decide] if the descriptor is over its limit.
	Over bool

	ask   int  // index in asks; -1: none
	alone bool // it is judged by itself
}

// Counted reports whether the descriptor needs the store.
func (d *Descriptor) Counted() bool { return d.Policy != nil && !d.Replaced }

// check reports whether the descriptor only asks for what is left.
func (d *Descriptor) check() bool { return d.Hits == 0 }

// Request is one request under way. Its memory is used again after [Request.Reset]. It is
// not safe for concurrent use.
type Request struct {
	Descriptors []Descriptor
	// Free is set by [Decider.Decide] if the request is rejected, and costs nothing.
	Free bool

	asks      []engine.Ask
	rounds    []int // where in asks each round ends
	judgments []engine.Judgment
	uncharged bool // a descriptor is over its limit, and not charged
}

// Reset empties the request, and forgets what it pointed to.
func (r *Request) Reset() {
	clear(r.Descriptors)
	clear(r.asks)
	*r = Request{Descriptors: r.Descriptors[:0], asks: r.asks[:0], rounds: r.rounds[:0], judgments: r.judgments[:0]}
}

// Judgment is what the store, or on_failure, decided on descriptor i; nil if it is not counted.
func (r *Request) Judgment(i int) *engine.Judgment {
	if ask := r.Descriptors[i].ask; ask >= 0 {
		return &r.judgments[ask]
	}
	return nil
}

// Decider decides on requests. It is safe for concurrent use.
type Decider struct {
	Judge          engine.Judge
	ChargeRejected bool // rejected descriptors are charged, too
	Shadow         bool // no request is rejected
}

// Decide decides by the deadline on the descriptors of r, and reports whether the request
// is rejected.
func (d *Decider) Decide(ctx context.Context, deadline time.Time, r *Request) (rejected bool) {
	r.prepareAsks(!d.ChargeRejected)
	d.judge(ctx, deadline, r)
	rejected = d.weigh(r) && !d.Shadow
	r.Free = rejected && !d.ChargeRejected
	return rejected
}

// judge has the asks decided, round by round.
func (d *Decider) judge(ctx context.Context, deadline time.Time, r *Request) {
	r.judgments = slices.Grow(r.judgments[:0], len(r.asks))[:len(r.asks)]
	clear(r.judgments)
	if len(r.asks) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	at := 0
	for _, end := range r.rounds {
		d.Judge.Judge(ctx, r.asks[at:end], r.judgments[at:end])
		at = end
	}
}

// weigh notes which descriptors are over their limit, and reports whether that rejects the
// request: one that enforces its limit is over, or all quotas are.
func (d *Decider) weigh(r *Request) bool {
	rejected, quotas, spent := false, 0, 0
	for i := range r.Descriptors {
		e := &r.Descriptors[i]
		if e.IsQuota {
			quotas++
		}
		if e.ask < 0 {
			continue
		}
		e.Over = r.isOver(i)
		r.uncharged = r.uncharged || e.Over && !d.ChargeRejected
		switch {
		case !e.Over:
		case e.Mode == Enforce:
			rejected = true
		case e.Mode == Quota:
			spent++
		}
	}
	return rejected || quotas > 0 && spent == quotas
}

// Settle returns the charges of descriptors that are over their limit, and all charges of
// a request that costs nothing. The figures of r are those before it.
func (d *Decider) Settle(ctx context.Context, r *Request) {
	back := 0
	for i := range r.Descriptors {
		e := &r.Descriptors[i]
		if e.ask < 0 || e.check() || !r.judgments[e.ask].Admitted {
			continue
		}
		if r.Free || e.Over {
			back++
		} else {
			r.judgments[e.ask].Admitted = false // it stays charged
		}
	}
	if back > 0 {
		d.Judge.GiveBack(ctx, r.asks, r.judgments)
	}
}
