package redisstore

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

// group holds the asks of one request: all are granted or none. Its members may live on
// different nodes, which cannot decide together, so it is decided in rounds. In the first
// round every member settles what it reports and checks whether its need fits; nothing
// is charged. If all fit, the second round charges all. Between the two, other requests
// may have taken what was left. Then the third round gives back what was charged.
//
// A member that is Unavailable does not stop the others: they are decided without it.
//
// It is guarded by the mu of its call.
type group struct {
	members []pendingAsk
	round   round
	pending int // members whose reply of this round is missing
}

type round uint8

const (
	fitting round = iota
	charging
	givingBack
	over
)

// join makes the members ask whether they fit.
func (g *group) join() {
	for i := range g.members {
		m := &g.members[i]
		m.group, m.mode = g, script.Fit
	}
}

// settled counts a member as settled in this round. It returns the asks of the next
// round, and whether the group is decided.
func (g *group) settled() (again []*pendingAsk, decided bool) {
	if g.pending--; g.pending > 0 {
		return nil, false
	}
	return g.advance()
}

// hasten ends the first round without the members that have not answered.
func (g *group) hasten() (again []*pendingAsk, decided bool) {
	if g.round != fitting {
		return nil, false
	}
	g.abandon()
	return g.advance()
}

// abandon settles the members that have not answered as Unavailable.
func (g *group) abandon() {
	for i := range g.members {
		if m := &g.members[i]; !m.settled && !m.overdue {
			m.settled, m.grant = true, lease.Grant{Status: lease.Unavailable}
			m.call.store.unavailable(Deadline)
		}
	}
	g.pending = 0
}

// advance goes to the next round that has anything to do.
func (g *group) advance() (again []*pendingAsk, decided bool) {
	if g.round == fitting {
		if g.round = over; !g.denied() {
			again, g.round = g.charge(), charging
		}
	} else if g.round == charging {
		if g.round = over; g.denied() {
			again, g.round = g.giveBack(), givingBack
		}
	} else {
		g.round = over
		g.stranded()
	}
	if len(again) == 0 {
		g.round = over
	}
	g.pending = len(again)
	return again, g.round == over
}

// denied reports whether any member lacks its need.
func (g *group) denied() bool {
	for i := range g.members {
		m := &g.members[i]
		if m.settled && m.ask.Want.Need > 0 && m.grant.Status == lease.Denied {
			return true
		}
	}
	return false
}

// charge returns the asks that charge the members that fit. What they gave back and
// reported is settled already.
func (g *group) charge() (again []*pendingAsk) {
	for i := range g.members {
		m := &g.members[i]
		if !m.fits || m.ask.Want.Want == 0 {
			continue
		}
		w := m.ask.Want
		m.ask.Want = lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Next: w.Next}
		again = append(again, m.again(script.Acquire))
	}
	return again
}

// giveBack returns the asks that give back what was charged.
func (g *group) giveBack() (again []*pendingAsk) {
	for i := range g.members {
		m := &g.members[i]
		if m.grant.Status != lease.OK || m.grant.Granted == 0 || !m.fits {
			continue
		}
		if m.ask.Holder != 0 { // a holder states absolute numbers
			m.ask.Want = lease.Want{Want: m.ask.Holding}
		} else {
			m.ask.Want = lease.Want{Unused: m.grant.Granted, Lease: m.grant.Lease}
		}
		m.overdue = true
		again = append(again, m.again(script.Acquire))
	}
	return again
}

// again makes an ask that is settled ready for another round.
func (p *pendingAsk) again(m script.Mode) *pendingAsk {
	p.mode, p.settled, p.asking, p.hops = m, false, false, 0
	p.debt, p.returns = "", "" // settled by the round before
	p.load()
	return p
}

// stranded corrects the grants of members whose give-back failed: nothing was granted
// to this request, although the units stay charged until they expire.
func (g *group) stranded() {
	for i := range g.members {
		if m := &g.members[i]; m.overdue && m.grant.Status != lease.OK {
			m.grant = m.nothing()
		}
	}
}

// nothing is the grant of a member whose group was denied elsewhere.
func (p *pendingAsk) nothing() lease.Grant {
	return lease.Grant{Status: lease.OK, Granted: p.ask.Holding, Limit: p.ask.Policy.Terms.Capacity}
}

// leave ends the group at the caller's deadline. It returns the asks that give back what
// was charged although the request is denied.
func (g *group) leave() (back []*pendingAsk) {
	switch g.round {
	case fitting:
		g.abandon()
		if !g.denied() { // all may fit, but nothing was charged
			for i := range g.members {
				m := &g.members[i]
				if m.grant.Status != lease.Unavailable {
					m.grant = lease.Grant{Status: lease.Unavailable}
					m.call.store.unavailable(Deadline)
				}
			}
		}
	case charging:
		g.abandon()
		if g.denied() {
			back = g.giveBack()
		}
	}
	for i := range g.members {
		if m := &g.members[i]; m.overdue && !m.settled {
			m.grant = m.nothing()
		}
	}
	g.round = over
	return back
}
