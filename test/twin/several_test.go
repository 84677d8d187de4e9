package twin

import (
	"slices"
	"strings"

	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// chargeTwice is what a counter has where what is denied is charged. There it goes on for
// ever, which a larger limit in a request shows.
func chargeTwice(x *exchange) {
	if x.mode.chargesDenied() {
		x.chargeInOrder(false)
	}
}

// chargeByRule believes a replica that a limit in a request, by which it refused requests
// from memory, charged them up to what goes beyond the limit of the rule.
func chargeByRule(x *exchange) {
	if x.mode.chargesDenied() && x.mode.store != "memory" {
		x.chargeInOrder(true)
	}
}

// tab is what is known of a counter of Weir's, where what is denied is charged.
type tab struct {
	more   uint64   // than envoyproxy/ratelimit's
	doubt  uint64   // it may have that much beyond that
	least  uint64   // the smallest limit that was met
	most   uint64   // the largest one
	denied []uint64 // the limits that were exceeded
}

// chargeInOrder charges descriptors one after the other, beyond a limit at most the limit
// once more. With believe, Weir's answers show what those were charged that were refused
// from memory, as far as that is in doubt.
func (x *exchange) chargeInOrder(believe bool) {
	x.tabs = map[*counter]*tab{}
	used := map[*counter]uint64{}
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if !p.charged {
			continue
		}
		limit := uint64(st.CurrentLimit.RequestsPerUnit)
		c := x.tabs[p.counter]
		if c == nil {
			c = new(tab)
			*c = p.tab
			if len(c.denied) == 0 && c.most == 0 {
				c.least = limit
			}
			c.denied = slices.Clone(c.denied)
			x.tabs[p.counter], used[p.counter] = c, p.counted+c.more
		}
		before := used[p.counter]
		if believe {
			seen := min(c.doubt, x.seenBeyond(i, before))
			c.more, c.doubt, before = c.more+seen, c.doubt-seen, before+seen
		}
		p.after, p.spent = before+p.hits, p.hits == 0 && before >= limit
		now := p.after
		st.Code, st.LimitRemaining = ok, uint32(limit-min(limit, p.after))
		if x.over(i) {
			now = charged(before, p.hits, limit)
			if p.rule == nil || !p.rule.ShadowMode {
				st.Code = overLimit
			}
			if believe && p.Limit != nil && slices.Contains(c.denied, limit) {
				a, b := charged(before, p.hits, min(c.least, limit, p.ruleLimit(limit))), charged(before, p.hits, max(c.most, p.ruleLimit(limit)))
				now, c.doubt = min(now, a), c.doubt+b-min(now, a)
			}
			c.denied = append(c.denied, limit)
		}
		c.least, c.most = min(c.least, limit), max(c.most, limit)
		p.back, used[p.counter] = p.after-now, now
	}
}

// charged is what a counter has after a request that was denied by a limit.
func charged(before, hits, limit uint64) uint64 { return max(before, min(before+hits, 2*limit)) }

// ruleLimit is the limit of the rule on the counter of a limit in a request, or else that
// limit.
func (p *part) ruleLimit(limit uint64) uint64 {
	if p.rule == nil || !strings.EqualFold(p.rule.RateLimit.Unit, typepb.RateLimitUnit_name[int32(p.Limit.Unit)]) {
		return limit
	}
	return uint64(p.rule.RateLimit.RequestsPerUnit)
}

// seenBeyond is how much more than before the counter of descriptor i had by Weir's answer.
func (x *exchange) seenBeyond(i int, before uint64) uint64 {
	p := &x.parts[i]
	if i >= len(x.weir.response.GetStatuses()) {
		return 0
	}
	ours, limit := x.weir.response.Statuses[i], uint64(x.response.Statuses[i].CurrentLimit.RequestsPerUnit)
	seen := limit - min(limit, uint64(ours.LimitRemaining))
	if ours.Code == overLimit && p.hits > 0 {
		seen++
	}
	return max(seen, p.hits+before) - p.hits - before
}
