package twin

// sight is what one replica of Weir has seen of a counter.
type sight struct {
	asked    uint   // descriptors that it judged
	units    uint64 // what these asked for
	admitted uint64 // what of it was admitted, but for rules in shadow mode
}

// see notes how a replica judged a descriptor.
func (c *counter) see(replica int, hits uint64, admitted bool) {
	s := &c.sights[replica]
	s.asked, s.units = s.asked+1, s.units+hits
	if admitted {
		s.admitted += hits
	}
}

// admitted is what all replicas have admitted.
func (c *counter) admitted() (units uint64) {
	for _, s := range c.sights {
		units += s.admitted
	}
	return units
}

// ahead is the most that other replicas than one hold on lease, of a limit. What a replica
// asks for ahead doubles at most three times with each request, and is a thirty-second of
// the limit or 24 times what it was asked for, if that is more. It holds two leases.
func (c *counter) ahead(replica int, limit uint64) (units uint64) {
	for i, s := range c.sights {
		if i != replica && s.asked > 0 {
			units += 2 * min(2<<min(3*(s.asked-1), 40), max(limit/32, 1, 24*s.units))
		}
	}
	return units
}

// lagCharging believes a replica about descriptor i where denials are charged: it may be
// refused what is on lease elsewhere, and admitted from a lease although others have
// exceeded the limit. More than the limit is never admitted, a replica counts all that it
// has admitted itself, and others hold no more than they can have asked for.
func (x *exchange) lagCharging(i int) {
	p, st, ours := &x.parts[i], x.response.Statuses[i], x.weir.response.Statuses[i]
	limit := uint64(st.CurrentLimit.RequestsPerUnit)
	least := x.lessAhead(i, limit-min(limit, p.after))
	most := limit - min(limit, p.sights[x.replica].admitted+p.hits)
	left := uint64(ours.LimitRemaining)
	switch {
	case ours.Code == overLimit:
		if st.Code == overLimit || least == 0 {
			st.Code, st.LimitRemaining = overLimit, 0
		}
	case st.Code == ok && least <= left && left <= most, st.Code == overLimit && p.admitted()+p.hits <= limit && left <= most:
		st.Code, st.LimitRemaining = ok, ours.LimitRemaining
	}
}

// lessAhead is the least that a replica may have left of so many units.
func (x *exchange) lessAhead(i int, units uint64) uint64 {
	p := &x.parts[i]
	return units - min(units, p.ahead(x.replica, max(p.most, uint64(x.response.Statuses[i].CurrentLimit.RequestsPerUnit))))
}
