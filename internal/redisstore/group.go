package redisstore

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

// group is the asks of one request, all or none. Its members may live on different
// nodes, which cannot decide together, so it is decided in two rounds: every member
// is settled and looks whether its need fits, which charges nothing; if all fit,
// all are charged. Between the two others may have taken what was there. Then the
// members that were charged give it back.
//
// A member that is Unavailable holds up nobody: the others are decided without it.
//
// It is guarded by the mu of its call.
type group struct {
	members []errand
	round   round
	pending int // members that are under way in this round
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

// settled notes that a member is settled in this round. It returns what is to be
// sent next, and whether the group is decided.
func (g *group) settled() (again []*errand, decided bool) {
	if g.pending--; g.pending > 0 {
		return nil, false
	}
	return g.advance()
}

// hasten ends the first round for members that have not answered.
func (g *group) hasten() (again []*errand, decided bool) {
	if g.round != fitting {
		return nil, false
	}
	g.abandon()
	return g.advance()
}

// abandon settles what is under way.
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
func (g *group) advance() (again []*errand, decided bool) {
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

// charge has the members that fit take what they need. What they gave back and
// reported is settled by now.
func (g *group) charge() (again []*errand) {
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

// giveBack has the members that were charged return it.
func (g *group) giveBack() (again []*errand) {
	for i := range g.members {
		m := &g.members[i]
		if m.grant.Status != lease.OK || m.grant.Granted == 0 || !m.fits {
			continue
		}
		if m.ask.Holder != 0 { // what a holder states is absolute
			m.ask.Want = lease.Want{Want: m.ask.Holding}
		} else {
			m.ask.Want = lease.Want{Unused: m.grant.Granted, Lease: m.grant.Lease}
		}
		m.overdue = true
		again = append(again, m.again(script.Acquire))
	}
	return again
}

// again makes an errand that is settled ready for another round.
func (e *errand) again(m script.Mode) *errand {
	e.mode, e.settled, e.asking, e.hops = m, false, false, 0
	e.debt, e.returns = "", "" // they are settled
	e.load()
	return e
}

// stranded words the grants of members whose give-back failed: nothing was granted
// to this request, though the units stay charged until they expire.
func (g *group) stranded() {
	for i := range g.members {
		if m := &g.members[i]; m.overdue && m.grant.Status != lease.OK {
			m.grant = m.nothing()
		}
	}
}

// nothing is the grant of a member whose group was denied elsewhere.
func (e *errand) nothing() lease.Grant {
	return lease.Grant{Status: lease.OK, Granted: e.ask.Holding, Limit: e.ask.Policy.Terms.Capacity}
}

// leave ends the group at the caller's deadline, and returns what is still to be
// sent: what members were charged though the request is denied.
func (g *group) leave() (back []*errand) {
	switch g.round {
	case fitting:
		g.abandon()
		if !g.denied() { // it may fit, but nothing was charged
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
