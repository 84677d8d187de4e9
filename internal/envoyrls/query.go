package envoyrls

import (
	"bytes"
	"slices"
	"sync"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// query is one request under way. Its memory is used again.
type query struct {
	request *rlspb.RateLimitRequest
	rules   *rules
	free    bool // it is refused, and costs nothing

	descriptors []described
	entries     []descriptor.Entry // of all descriptors, one after the other
	matches     []*descriptor.Rule // of the configuration, for replaces

	asks      []engine.Ask
	mixed     bool  // an ask is for descriptors with different limits, or for a peek too
	anyOver   bool  // a descriptor is over its limit
	rounds    []int // where in asks each round but the first begins
	charges   int   // of asks: those after them are peeks'
	judgments []engine.Judgment

	keys, name []byte // what asks point to; a metric's name
}

// described is what was found for a descriptor.
type described struct {
	entries []descriptor.Entry
	rule    *prepared // nil: allowed without being counted
	hits    int64
	ask     int // index in asks, -1: none
	balance int // index of the ask that has what is left if ask is refused; 0: ask itself

	replaced bool
	alone    bool // it is judged by itself
	refused  bool // over its limit
	free     bool // the ask is made for peeks alone, and charges nothing
}

// peek reports whether the descriptor only asks for what is left.
func (d *described) peek() bool { return d.hits == 0 }

var queries = sync.Pool{New: func() any { return new(query) }}

// release clears what belongs to the request.
func (q *query) release() {
	clear(q.descriptors)
	clear(q.entries)
	clear(q.matches)
	clear(q.asks)
	const kept = 64 << 10 // the memory of a huge request is freed
	if cap(q.keys) > kept || cap(q.entries) > kept/32 {
		return
	}
	*q = query{
		descriptors: q.descriptors[:0], entries: q.entries[:0], matches: q.matches[:0],
		asks: q.asks[:0], rounds: q.rounds[:0], judgments: q.judgments[:0], keys: q.keys[:0], name: q.name[:0],
	}
	queries.Put(q)
}

// match finds the rule of each descriptor. The error is a *[RequestError].
func (s *Server) match(q *query) error {
	total := 0
	for _, d := range q.request.Descriptors {
		total += len(d.Entries)
	}
	q.entries = slices.Grow(q.entries, total) // stays where it is from here on
	known := q.rules.has(q.request.Domain)
	for i, d := range q.request.Descriptors {
		at := len(q.entries)
		for _, e := range d.Entries {
			q.entries = append(q.entries, descriptor.Entry{Key: e.Key, Value: e.Value})
		}
		found := described{entries: q.entries[at:], hits: hitsOf(q.request, d), ask: -1}
		m := q.rules.config.Match(q.request.Domain, found.entries)
		q.matches = append(q.matches, m)
		found.rule = q.rules.prepared[m] // nil of nil
		switch {
		case d.Limit != nil && known:
			p, reason := s.override(q.request.Domain, found.rule, d.Limit)
			if reason != "" {
				return wrong(field(i, "limit"), "%s", reason)
			}
			found.rule = p
		case d.Limit == nil:
			s.bind(q, &found, i)
		}
		if found.rule == nil {
			s.unmatched(known)
		}
		q.descriptors = append(q.descriptors, found)
	}
	for i, yes := range descriptor.Replaced(q.matches) {
		q.descriptors[i].replaced = yes
	}
	return nil
}

func (s *Server) unmatched(known bool) {
	if known {
		s.metrics.noRule.Inc()
	} else {
		s.metrics.noDomain.Inc()
	}
}

// prepareAsks makes the asks: first those of the group, with one ask per counter, then
// the charges outside of it, then the peeks. Without together there is no group, and each
// descriptor has an ask of its own, peeks too. Those of one counter are in different rounds,
// so that they are judged in their order.
func (q *query) prepareAsks(together bool) {
	alone := 0
	for i := range q.descriptors {
		d := &q.descriptors[i]
		switch {
		case !d.counted() || together && d.peek():
		case together && d.rule.mode == enforce:
			q.join(d)
		default:
			d.alone = true
			alone++
		}
	}
	for first := true; alone > 0; first = false {
		begin := len(q.asks)
		if !first {
			q.rounds = append(q.rounds, begin)
		}
		alone -= q.addRound(begin)
	}
	q.charges = len(q.asks)
	for i := range q.descriptors {
		if d := &q.descriptors[i]; d.counted() && d.ask < 0 {
			q.peek(i)
		}
	}
}

// addRound adds the first ask of each counter among those that are yet to be added, and
// returns how many they are.
func (q *query) addRound(begin int) int {
	for i := range q.descriptors {
		d := &q.descriptors[i]
		if !d.alone || d.ask >= 0 {
			continue
		}
		a := q.askOf(d, d.rule.policy, d.hits)
		if !slices.ContainsFunc(q.asks[begin:], func(b engine.Ask) bool { return sameCounter(&a, &b) }) {
			q.add(d, a)
			d.free = d.peek()
		}
	}
	return len(q.asks) - begin
}

// counted reports whether the descriptor needs the store.
func (d *described) counted() bool { return d.rule != nil && d.rule.policy != nil && !d.replaced }

func (q *query) add(d *described, a engine.Ask) {
	d.ask = len(q.asks)
	q.asks = append(q.asks, a)
}

// join adds a descriptor to the group. If the group has its counter already, both are
// one ask of their sum. Where they have different limits, [Server.narrow] finds that of
// the ask.
func (q *query) join(d *described) {
	a := q.askOf(d, d.rule.policy, d.hits)
	a.Group = 1
	i := slices.IndexFunc(q.asks, func(b engine.Ask) bool { return sameCounter(&a, &b) })
	if i < 0 {
		q.add(d, a)
		return
	}
	d.ask = i
	b := &q.asks[i]
	need := min(a.Want.Need+b.Want.Need, limit.MaxCount)
	b.Want.Need, b.Want.Waiting, b.Want.Want = need, need, need
	q.mixed = q.mixed || a.Policy.Terms.Capacity != b.Policy.Terms.Capacity
}

// peek makes the ask of descriptor i, which charges nothing. Where the request charges
// the counter anyway, the last charge before i is the answer, or else the first.
func (q *query) peek(i int) {
	d := &q.descriptors[i]
	a := q.askOf(d, d.rule.policy, 0)
	d.ask = q.chargeBy(&a, i)
	if d.free = d.ask < 0; !d.free {
		q.mixed = true
		return
	}
	for at := q.charges; at < len(q.asks); at++ {
		if b := &q.asks[at]; sameCounter(&a, b) && a.Policy.Terms.Capacity == b.Policy.Terms.Capacity {
			d.ask = at
			return
		}
	}
	q.add(d, a)
}

// chargeBy returns the ask that charges a counter for the last descriptor before i or, if
// there is none, for the first after it; -1 if none does.
func (q *query) chargeBy(a *engine.Ask, i int) int {
	at := -1
	for j := range q.descriptors {
		o := &q.descriptors[j]
		if at >= 0 && j > i {
			break
		}
		if o.ask >= 0 && !o.peek() && sameCounter(a, &q.asks[o.ask]) {
			at = o.ask
		}
	}
	return at
}

func sameCounter(a, b *engine.Ask) bool {
	return a.Policy.Same(b.Policy) && bytes.Equal(a.Key, b.Key)
}

// askOf makes the ask of a descriptor.
func (q *query) askOf(d *described, p *engine.Policy, need int64) engine.Ask {
	at := len(q.keys)
	q.keys = d.rule.appendKey(q.keys, d.entries)
	q.keys = q.keys[:at+len(rule.ShortKey(q.keys[at:]))] // it shortens in place
	return engine.Ask{
		Policy: p,
		Key:    q.keys[at:len(q.keys):len(q.keys)],
		Want:   lease.Want{Need: need, Waiting: need, Want: need},
	}
}

// appendKey appends the key of a descriptor's counter.
func (p *prepared) appendKey(dst []byte, entries []descriptor.Entry) []byte {
	switch {
	case p.binding != nil:
		return p.binding.AppendKey(dst, p.policy.Key, entries)
	case p.rule != nil:
		return p.rule.AppendKey(dst, entries)
	}
	return appendOverrideKey(dst, entries)
}
