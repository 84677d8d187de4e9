package twin

// chargeTwice is what a counter can say where what is denied is charged. There it goes
// on for ever, which a larger limit in a request shows.
func chargeTwice(x *exchange) {
	if !x.mode.chargesDenied() {
		return
	}
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if most := 2 * uint64(st.GetCurrentLimit().GetRequestsPerUnit()); p.charged && x.over(i) && p.after > most {
			p.back = min(p.hits, p.after-most)
		}
	}
}

// onItsWay believes a replica that has refused a request, and counts what that took of a
// counter which it asked about once more.
func onItsWay(x *exchange) {
	if x.mode.store == "memory" || x.mode.chargesDenied() || x.response.OverallCode != overLimit {
		return
	}
	for i := range x.parts {
		if p := &x.parts[i]; p.charged && !x.over(i) && len(x.sums(p.counter)) > 2 {
			x.believeSome(i)
		}
	}
}

// believeSome believes what is left of a counter when some of what the request charges to
// it is counted, and the rest is not.
func (x *exchange) believeSome(i int) {
	if i >= len(x.weir.response.GetStatuses()) {
		return
	}
	p, st, ours := &x.parts[i], x.response.Statuses[i], x.weir.response.Statuses[i]
	most := uint64(st.CurrentLimit.RequestsPerUnit)
	for _, sum := range x.sums(p.counter) {
		if left := most - min(most, x.first(p.key)+sum); st.Code == ok && ours.Code == ok && uint64(ours.LimitRemaining) == left {
			st.LimitRemaining = ours.LimitRemaining
		}
	}
}

// checkBeside is a check beside charges of its own counter, of which any may have been
// made.
func checkBeside(x *exchange) {
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if !p.charged || p.hits > 0 || !x.charges(p.key) || i >= len(x.weir.response.GetStatuses()) {
			continue
		}
		ours, most := x.weir.response.Statuses[i], uint64(st.CurrentLimit.RequestsPerUnit)
		for _, sum := range x.sums(p.counter) {
			used := min(most, x.first(p.key)+sum)
			if uint64(ours.LimitRemaining) == most-used && (ours.Code == ok || used == most) {
				st.Code, st.LimitRemaining, p.spent = ours.Code, ours.LimitRemaining, ours.Code == overLimit
				p.after = used
			}
		}
	}
}

// sums are those of some of what is charged to a counter.
func (x *exchange) sums(c *counter) []uint64 {
	sums := []uint64{0}
	for i := range x.parts {
		if p := &x.parts[i]; p.counter == c {
			for _, sum := range sums {
				sums = append(sums, sum+p.hits)
			}
		}
	}
	return sums
}
