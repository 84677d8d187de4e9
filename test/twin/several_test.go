package twin

// chargeTwice is what a counter has where what is denied is charged. There it goes on for
// ever, which a larger limit in a request shows.
func chargeTwice(x *exchange) {
	if x.mode.chargesDenied() {
		x.chargeInOrder()
	}
}

// tab is what is known of a counter of Weir's, where what is denied is charged.
type tab struct {
	more uint64 // than envoyproxy/ratelimit's
	most uint64 // the largest limit that was met
}

// chargeInOrder charges descriptors one after the other, beyond a limit at most the limit
// once more.
func (x *exchange) chargeInOrder() {
	x.tabs = map[*counter]*tab{}
	used, granted := map[*counter]uint64{}, map[*counter]bool{} // the last charge of the request
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
			x.tabs[p.counter], used[p.counter] = c, p.counted+c.more
		}
		before := used[p.counter]
		p.after, p.spent = before+p.hits, p.hits == 0 && before >= limit && !granted[p.counter]
		now := p.after
		st.Code, st.LimitRemaining = ok, uint32(limit-min(limit, p.after))
		if x.over(i) {
			now = charged(before, p.hits, limit)
			if p.rule == nil || !p.rule.ShadowMode {
				st.Code = overLimit
			}
		}
		if p.hits > 0 {
			granted[p.counter] = !x.over(i)
		}
		c.most = max(c.most, limit)
		p.back, used[p.counter] = p.after-now, now
	}
}

// charged is what a counter has after a request that was denied by a limit.
func charged(before, hits, limit uint64) uint64 { return max(before, min(before+hits, 2*limit)) }
