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
	rounds    []int // where in asks each round ends
	judgments []engine.Judgment
	uncharged bool // a descriptor is over its limit, and not charged

	keys, name []byte // what asks point to; a metric's name
}

// described is what was found for a descriptor.
type described struct {
	entries []descriptor.Entry
	rule    *prepared // nil: allowed without being counted
	key     []byte    // of its counter
	hits    int64
	ask     int // index in asks, -1: none

	replaced bool
	alone    bool // it is judged by itself
	refused  bool // over its limit
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
// those outside of it. Without together there is no group. Descriptors outside of the group
// that have the same counter are in different rounds, so that they are judged in their order.
func (q *query) prepareAsks(together bool) {
	for i := range q.descriptors {
		if d := &q.descriptors[i]; d.counted() {
			q.setKey(d)
		}
	}
	alone := 0
	for i := range q.descriptors {
		d := &q.descriptors[i]
		switch {
		case !d.counted():
		case together && d.rule.mode == enforce && q.addsUp(d):
			q.join(d)
		default:
			d.alone = true
			alone++
		}
	}
	for begin := len(q.asks); alone > 0; begin = len(q.asks) {
		alone -= q.addRound(begin)
		q.rounds = append(q.rounds, len(q.asks))
	}
	if len(q.rounds) == 0 {
		q.rounds = append(q.rounds, len(q.asks))
	}
}

// counted reports whether the descriptor needs the store.
func (d *described) counted() bool { return d.rule != nil && d.rule.policy != nil && !d.replaced }

// addsUp reports whether a descriptor and the others of its counter are one charge of their
// sum: all charge it, by the same limit.
func (q *query) addsUp(d *described) bool {
	for i := range q.descriptors {
		o := &q.descriptors[i]
		if o.counted() && sameCounter(d, o) && (o.peek() || o.rule.policy.Terms.Capacity != d.rule.policy.Terms.Capacity) {
			return false
		}
	}
	return true
}

// join adds a descriptor to the group. If the group has its counter already, both are
// one ask of their sum.
func (q *query) join(d *described) {
	for i := range q.descriptors {
		o := &q.descriptors[i]
		if o.ask < 0 || !sameCounter(d, o) {
			continue
		}
		d.ask = o.ask
		want := &q.asks[d.ask].Want
		need := min(want.Need+d.hits, limit.MaxCount)
		want.Need, want.Waiting, want.Want = need, need, need
		return
	}
	q.add(d)
	q.asks[d.ask].Group = 1
}

// addRound adds the first ask of each counter among those that are yet to be added, and
// returns how many they are.
func (q *query) addRound(begin int) int {
	for i := range q.descriptors {
		d := &q.descriptors[i]
		if d.alone && d.ask < 0 && !slices.ContainsFunc(q.descriptors[:i], func(o described) bool { return o.ask >= begin && sameCounter(d, &o) }) {
			q.add(d)
		}
	}
	return len(q.asks) - begin
}

// add makes the ask of a descriptor.
func (q *query) add(d *described) {
	d.ask = len(q.asks)
	q.asks = append(q.asks, engine.Ask{
		Policy: d.rule.policy,
		Key:    d.key,
		Want:   lease.Want{Need: d.hits, Waiting: d.hits, Want: d.hits},
	})
}

func sameCounter(a, b *described) bool {
	return a.rule.policy.Same(b.rule.policy) && bytes.Equal(a.key, b.key)
}

// setKey sets the key of a descriptor's counter.
func (q *query) setKey(d *described) {
	at := len(q.keys)
	q.keys = d.rule.appendKey(q.keys, d.entries)
	q.keys = q.keys[:at+len(rule.ShortKey(q.keys[at:]))] // it shortens in place
	d.key = q.keys[at:len(q.keys):len(q.keys)]
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
