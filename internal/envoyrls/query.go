package envoyrls

import (
	"slices"
	"sync"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/envoyrls/rules"
)

// query is one request under way. Its memory is used again.
type query struct {
	decision.Request
	request *rlspb.RateLimitRequest

	// matched is by index in Descriptors: those of the request, and behind them what is beside
	// these.
	matched []matched
	of      []*descriptor.Rule // the rules of matched in the configuration, for replaces
	entries []descriptor.Entry // of all descriptors, one after the other

	keys, name []byte // of counters; a metric's name
}

// matched is what was found for a descriptor.
type matched struct {
	entries []descriptor.Entry
	rule    *rules.Rule // nil: allowed without being counted
	beside  []*rules.Rule
	// shown is the one, it or one that is beside it, whose status is the descriptor's.
	shown int
}

var queries = sync.Pool{New: func() any { return new(query) }}

// release clears what belongs to the request.
func (q *query) release() {
	q.Reset()
	clear(q.matched)
	clear(q.of)
	clear(q.entries)
	const kept = 64 << 10 // the memory of a huge request is freed
	if cap(q.keys) > kept || cap(q.entries) > kept/32 {
		return
	}
	*q = query{
		Request: q.Request, matched: q.matched[:0], of: q.of[:0], entries: q.entries[:0], keys: q.keys[:0], name: q.name[:0],
	}
	queries.Put(q)
}

// match finds the rule of each descriptor. The error is about the request.
func (s *Server) match(q *query, in *rules.Set) error {
	total := 0
	for _, d := range q.request.Descriptors {
		total += len(d.Entries)
	}
	q.entries = slices.Grow(q.entries, total) // stays where it is from here on
	known := in.Domain(q.request.Domain)
	for i, d := range q.request.Descriptors {
		begin, key := len(q.entries), len(q.keys)
		for _, e := range d.Entries {
			q.entries = append(q.entries, descriptor.Entry{Key: e.Key, Value: e.Value})
		}
		m := matched{entries: q.entries[begin:], shown: i}
		if known {
			var err error
			if m.rule, m.beside, q.keys, err = in.Match(q.request.Domain, m.entries, d.Limit, q.keys); err != nil {
				return wrong(field(i, "limit"), "%v", err)
			}
		}
		if m.rule == nil && known {
			s.metrics.Unmatched.WithLabelValues("rule").Inc()
		} else if m.rule == nil {
			s.metrics.Unmatched.WithLabelValues("domain").Inc()
		}
		q.matched = append(q.matched, m)
		q.Descriptors = append(q.Descriptors, s.toDecide(m.rule, q.keys[key:], hitsOf(q.request, d)))
		q.of = append(q.of, m.rule.InConfig())
	}
	for i, yes := range descriptor.Replaced(q.of) {
		if yes {
			d := &q.Descriptors[i]
			d.Replaced, d.IsQuota = true, d.Policy != nil && s.cfg.Quota
		}
	}
	for i := range q.request.Descriptors {
		for _, r := range q.matched[i].beside {
			d := &q.Descriptors[i]
			q.matched = append(q.matched, matched{entries: q.matched[i].entries, rule: r, shown: i})
			q.Descriptors = append(q.Descriptors, s.toDecide(r, d.Key, d.Hits))
		}
	}
	return nil
}

// toDecide is what decides on a descriptor. As in envoyproxy/ratelimit, with QUOTA_MODE a
// descriptor that no rule matches, or whose rule is replaced, is a quota that is never over.
// An unlimited one is no quota.
func (s *Server) toDecide(r *rules.Rule, key []byte, hits int64) decision.Descriptor {
	if r == nil {
		return decision.Descriptor{Hits: hits, IsQuota: s.cfg.Quota}
	}
	return decision.Descriptor{
		Policy: r.Policy, Key: slices.Clip(key), Hits: hits, Mode: r.Mode, IsQuota: r.Quota && r.Policy != nil,
	}
}
