// Package rounds decides on the wants of one request: all of them are granted, or none.
//
// The counters of such a group may be on several nodes, which cannot decide together. So
// they are asked in rounds:
//
//	Fit       settle what the want reports, and    fits: nothing is charged yet
//	          check whether its need fits          Denied: nothing will be charged
//	Charge    charge what the want asks for        OK: it is charged
//	                                               Denied: another request was faster
//	GiveBack  return what was charged
//
// If no need is denied, the second round charges all that fit. If one is denied then, the
// third round returns what the others were charged. The caller asks the counters:
//
//	group.Join(member)                       for each; it is asked to Fit
//	group.Reply(member, want, grant, fits)   for each reply, in any order
//	for group.Turn() {                       after each reply
//		group.Asks(member, want)             for each; if true it is asked again
//	}
//	member.Grant                             when the group is Over
//
// A member that is Unavailable does not stop the others: they are decided without it. A
// member may also be answered before its reply arrives ([Group.Skip], [Group.Leave]). If
// that reply brings a grant, it goes back.
//
// Nothing here reads a clock, asks a counter, takes a lock or allocates.
package rounds

import "github.com/weirlimit/weir/internal/lease"

// Round is what the members of a group are asked.
type Round uint8

// The rounds, in their order.
const (
	Fit Round = iota
	charge
	GiveBack
	Over // the group is decided
)

// Group is the wants of one request. The zero value is in its first round, without members.
type Group struct {
	Round  Round
	denied bool  // a need was denied
	waits  int32 // members whose reply of this round is missing
}

// Alone is the group of a single want, which is charged at once.
func Alone() Group { return Group{Round: charge} }

// Member is one want of a group. The zero value has not joined one.
type Member struct {
	Grant lease.Grant // answers the want, once the group is over
	Round Round       // of its last question
	reply reply       // to that
	fits  bool        // its need fits, and may be charged
}

type reply uint8

const (
	arrived reply = iota
	awaited
	givenUp // the member was answered without it; it may still arrive
)

// Join makes m a member. All join before the first reply.
func (g *Group) Join(m *Member) {
	*m = Member{Round: g.Round, reply: awaited}
	g.waits++
}

// Waits reports whether the group waits for a reply of m.
func (m *Member) Waits() bool { return m.reply == awaited }

// Reply takes the reply to the last question of m, whose want is w. fits is read in the
// round Fit only. A second reply to the same question is ignored.
//
// If the group has given the reply up, and it brings a grant, Reply is true: the caller
// asks m once more, to give that back. w is changed to this question.
func (g *Group) Reply(m *Member, w *lease.Want, grant lease.Grant, fits bool) (late bool) {
	switch {
	case m.reply == arrived:
		return false
	case m.reply == givenUp:
		m.reply = arrived
		if late = m.Round == charge && grant.Status == lease.OK && grant.Granted > 0; late {
			g.ask(m, GiveBack)
			*w = returning(w, &grant)
		}
		return late
	case m.Round != GiveBack:
		m.Grant, m.fits = grant, fits && m.Round == Fit
		g.denied = g.denied || w.Need > 0 && grant.Status == lease.Denied
	case m.Grant.Status == lease.OK && grant.Status == lease.OK:
		m.Grant = grant
	}
	m.reply = arrived
	g.waits--
	return false
}

// Turn begins the next round, if no reply of this one is missing. It is false if one is, or
// if the group was over before.
func (g *Group) Turn() bool {
	switch {
	case g.waits > 0 || g.Round == Over:
		return false
	case g.Round == Fit && !g.denied:
		g.Round = charge
	case g.Round == charge && g.denied:
		g.Round = GiveBack
	default:
		g.Round = Over
	}
	return true
}

// Asks reports whether m, whose want is w, is asked in the round that has just begun. w is
// changed to the question.
func (g *Group) Asks(m *Member, w *lease.Want) bool {
	switch {
	case g.Round == charge && m.fits && w.Want > 0: // what it reports is settled
		*w = w.Asks()
	case g.Round == GiveBack && m.Round == charge && m.Grant.Status == lease.OK && m.Grant.Granted > 0:
		*w = returning(w, &m.Grant)
		// If the reply is lost, the units stay charged until they expire, but not to this request.
		m.Grant = lease.Grant{Status: lease.OK, Granted: w.Holding, Limit: m.Grant.Limit}
	default:
		return false
	}
	g.ask(m, g.Round)
	return true
}

func (g *Group) ask(m *Member, in Round) {
	m.Round, m.reply = in, awaited
	g.waits++
}

// returning is the question that gives back what was granted for a want. For slots it states in
// absolute numbers what the holder keeps: those that it has in use.
func returning(w *lease.Want, g *lease.Grant) lease.Want {
	return lease.Want{Unused: g.Granted, Lease: g.Lease, Want: w.Holding, Holding: w.Holding}
}

// Skip answers m without its reply to Fit, so that the group goes on with the members
// that have replied. It reports whether it did: m is Unavailable.
func (g *Group) Skip(m *Member) bool { return g.Round == Fit && g.giveUp(m) }

// Leave answers m as far as it is decided: the caller of the group leaves. All members are
// passed to Leave before the next Turn. It reports whether it made m Unavailable. While all
// may fit and nothing is charged, that is each of them. A give-back is still asked for.
func (g *Group) Leave(m *Member) bool {
	if g.Round != Fit || g.denied || m.reply != arrived || m.Grant.Status == lease.Unavailable {
		return m.Round != GiveBack && g.giveUp(m)
	}
	m.Grant, m.fits = lease.Grant{Status: lease.Unavailable}, false
	return true
}

func (g *Group) giveUp(m *Member) bool {
	if m.reply != awaited {
		return false
	}
	m.Grant, m.reply = lease.Grant{Status: lease.Unavailable}, givenUp
	g.waits--
	return true
}
