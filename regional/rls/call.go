package rls

import (
	"bytes"
	"slices"
	"sync"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/rule"
)

// call is one request under way, in memory that is used again.
type call struct {
	request *rlspb.RateLimitRequest
	rules   *rules
	free    bool // it costs nothing, for it is refused

	descriptors []described
	entries     []descriptor.Entry // of all descriptors, one after the other
	matches     []descriptor.Match // of each, for replaces

	asks      []limiter.Ask
	mixed     bool // an ask is for descriptors with different limits, or for a peek too
	anyOver   bool // a descriptor is over its limit
	charges   int  // of asks: those after them are peeks'
	judgments []limiter.Judgment

	keys, name []byte // what asks point to; a metric's name
}

// described is what was found for a descriptor.
type described struct {
	entries []descriptor.Entry
	rule    *prepared // nil: allowed without being counted
	hits    int64
	ask     int // index in asks, -1: none
	told    int // index of the ask that tells what is left where that one is refused; 0: that one

	replaced bool
	refused  bool // over its limit
	free     bool // the ask is made for peeks alone, and charges nothing
}

// peek reports whether the descriptor only wants to know.
func (d *described) peek() bool { return d.hits == 0 }

var calls = sync.Pool{New: func() any { return new(call) }}

// release forgets what the request brought.
func (c *call) release() {
	clear(c.descriptors)
	clear(c.entries)
	clear(c.matches)
	clear(c.asks)
	const kept = 64 << 10 // a huge request does not stay in memory
	if cap(c.keys) > kept || cap(c.entries) > kept/32 {
		return
	}
	*c = call{
		descriptors: c.descriptors[:0], entries: c.entries[:0], matches: c.matches[:0],
		asks: c.asks[:0], judgments: c.judgments[:0], keys: c.keys[:0], name: c.name[:0],
	}
	calls.Put(c)
}

// match finds the rule of each descriptor. The error is a *[RequestError].
func (s *Server) match(c *call) error {
	total := 0
	for _, d := range c.request.Descriptors {
		total += len(d.Entries)
	}
	c.entries = slices.Grow(c.entries, total) // stays where it is from here on
	known := c.rules.knows(c.request.Domain)
	for i, d := range c.request.Descriptors {
		at := len(c.entries)
		for _, e := range d.Entries {
			c.entries = append(c.entries, descriptor.Entry{Key: e.Key, Value: e.Value})
		}
		found := described{entries: c.entries[at:], hits: hitsOf(c.request, d), ask: -1}
		m, ok := c.rules.config.Match(c.request.Domain, found.entries)
		c.matches = append(c.matches, m)
		if ok {
			found.rule = c.rules.prepared[m.Rule]
		}
		switch {
		case d.Limit != nil && known:
			p, reason := s.override(c.rules, c.request.Domain, found.rule, d.Limit)
			if reason != "" {
				return wrong(field(i, "limit"), "%s", reason)
			}
			found.rule = p
		case d.Limit == nil && c.rules.bindings != nil:
			s.bind(c, &found, i)
		}
		if found.rule == nil {
			s.unmatched(known)
		}
		c.descriptors = append(c.descriptors, found)
	}
	c.replace()
	return nil
}

func (s *Server) unmatched(known bool) {
	if known {
		s.metrics.noRule.Inc()
	} else {
		s.metrics.noDomain.Inc()
	}
}

// replace takes the descriptors out whose rule is replaced by another one's.
func (c *call) replace() {
	for i, yes := range descriptor.Replaced(c.matches) {
		c.descriptors[i].replaced = yes
	}
}

// prepareAsks makes the asks: those of the group first, of which no two may be of the
// same counter, then what is charged outside of it, then those that only want to
// know.
//
// together says that there is such a group. Without, each descriptor is charged by
// itself.
func (c *call) prepareAsks(together bool) {
	grouped := func(d *described) bool { return together && d.rule.mode == enforce }
	for i := range c.descriptors {
		if d := &c.descriptors[i]; d.counted() && grouped(d) && !d.peek() {
			c.join(d)
		}
	}
	for i := range c.descriptors {
		if d := &c.descriptors[i]; d.counted() && !grouped(d) && !d.peek() {
			c.add(d, c.askOf(d, d.rule.policy, d.hits))
		}
	}
	c.charges = len(c.asks)
	for i := range c.descriptors {
		if d := &c.descriptors[i]; d.counted() && d.peek() {
			c.peek(i)
		}
	}
}

// counted reports whether the store has a say in the descriptor.
func (d *described) counted() bool { return d.rule != nil && d.rule.policy != nil && !d.replaced }

func (c *call) add(d *described, a limiter.Ask) {
	d.ask = len(c.asks)
	c.asks = append(c.asks, a)
}

// join adds a descriptor to the group. If its counter is there already, both are
// one ask of their sum. Where they have different limits [Server.narrow] finds its own.
func (c *call) join(d *described) {
	a := c.askOf(d, d.rule.policy, d.hits)
	a.Group = 1
	i := c.same(&a)
	if i < 0 {
		c.add(d, a)
		return
	}
	d.ask = i
	b := &c.asks[i]
	need := min(a.Want.Need+b.Want.Need, limit.MaxCount)
	b.Want.Need, b.Want.Waiting, b.Want.Want = need, need, need
	c.mixed = c.mixed || a.Policy.Terms.Capacity != b.Policy.Terms.Capacity
}

// peek asks for nothing: descriptor i is told what is left. Where the request charges the
// counter anyway, that is the answer: the last charge before i, or else the first.
func (c *call) peek(i int) {
	d := &c.descriptors[i]
	a := c.askOf(d, d.rule.policy, 0)
	d.ask = c.chargeBy(&a, i)
	if d.free = d.ask < 0; !d.free {
		c.mixed = true
		return
	}
	for at := c.charges; at < len(c.asks); at++ {
		if b := &c.asks[at]; sameCounter(&a, b) && a.Policy.Terms.Capacity == b.Policy.Terms.Capacity {
			d.ask = at
			return
		}
	}
	c.add(d, a)
}

// chargeBy is the ask that charges a counter for the last descriptor before i or, if
// there is none, for the first after it; -1: none does.
func (c *call) chargeBy(a *limiter.Ask, i int) int {
	at := -1
	for j := range c.descriptors {
		o := &c.descriptors[j]
		if at >= 0 && j > i {
			break
		}
		if o.ask >= 0 && !o.peek() && sameCounter(a, &c.asks[o.ask]) {
			at = o.ask
		}
	}
	return at
}

// same is the ask of the same counter, -1 if there is none.
func (c *call) same(a *limiter.Ask) int {
	return slices.IndexFunc(c.asks, func(b limiter.Ask) bool { return sameCounter(a, &b) })
}

func sameCounter(a, b *limiter.Ask) bool {
	return a.Policy.Same(b.Policy) && bytes.Equal(a.Key, b.Key)
}

// askOf is the ask of a descriptor.
func (c *call) askOf(d *described, p *limiter.Policy, need int64) limiter.Ask {
	at := len(c.keys)
	c.keys = d.rule.appendKey(c.keys, d.entries)
	c.keys = c.keys[:at+len(rule.ShortKey(c.keys[at:]))] // it shortens in place
	return limiter.Ask{
		Policy: p,
		Key:    c.keys[at:len(c.keys):len(c.keys)],
		Want:   lease.Want{Need: need, Waiting: need, Want: need},
	}
}

// appendKey appends the key of a descriptor's counter.
func (p *prepared) appendKey(dst []byte, entries []descriptor.Entry) []byte {
	switch {
	case p.binding != nil:
		return p.binding.AppendKey(dst, p.policy.Key, entries)
	case p.rule != nil:
		return descriptor.Match{Rule: p.rule}.AppendKey(dst, entries)
	}
	return appendOverrideKey(dst, entries)
}
