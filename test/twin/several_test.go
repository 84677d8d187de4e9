package twin

// chargeTwice is what a counter has where what is denied is charged. There it goes on for
// ever, which a larger limit in a request shows.
func chargeTwice(x *exchange) {
	if x.mode.chargesRejected() {
		x.chargeInOrder()
	}
}

// chargeInOrder charges descriptors one after the other, beyond a limit at most the limit once more.
func (x *exchange) chargeInOrder() {
	used, granted := map[*counter]uint64{}, map[*counter]bool{} // the last charge of the request
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if !p.charged {
			continue
		}
		limit := uint64(st.CurrentLimit.RequestsPerUnit)
		if _, met := used[p.counter]; !met {
			used[p.counter] = p.counted
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
		p.back, used[p.counter] = p.after-now, now
	}
}

// charged is what a counter has after a request that was denied by a limit.
func charged(before, hits, limit uint64) uint64 { return max(before, min(before+hits, 2*limit)) }
