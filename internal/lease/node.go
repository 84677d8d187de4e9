package lease

// Node is a tier in the middle: a holder of the tier above and the granter of
// the tier below. It cuts leases for its children out of its own, so a child's
// lease never outlives, nor exceeds, the one it was cut from. Its clock is one
// and the same for both roles.
//
// Invariant: what children hold of a lot, plus the units left in it, is at most
// what the lot was granted.
type Node struct {
	Slot Slot

	interval   int64
	asks       int32
	asksBefore int32
}

// Acquire applies a child's want and answers it from the node's own leases, or
// from a denial it remembers. With Wait there is no answer yet: the caller keeps
// the want, asks above ([Node.Ask]) and answers it from the reply ([Node.Apply]).
// What comes back in the want is settled in either case, once: an answered or
// kept want must not be applied again.
// The part it returns belongs to a lease that the node holds no more: the caller
// gives it back above.
func (n *Node) Acquire(t *Terms, now Millis, w Want) (Grant, Verdict, Part) {
	n.countAsker(t, now, w.Fresh)
	back := n.settle(now, w)
	if w.Want == 0 {
		return n.report(t, now), Admit, back
	}
	if g, ok := n.cut(t, now, w); ok {
		return g, Admit, back
	}
	if n.refuses(t, now, w) {
		return n.refusal(t, now), Refuse, back
	}
	return Grant{}, Wait, back
}

// Top says whether to ask above while nobody waits, after an answer.
func (n *Node) Top(t *Terms, now Millis) Asks { return n.Slot.askBehind(t, now) }

// Ask makes the want for the tier above on behalf of the children's wants that
// wait, oldest first; with none of them it is a top-up for the node itself. The
// queue holds wants for the next window only, or none of them.
func (n *Node) Ask(t *Terms, now Millis, queue []Want, behind Asks) Want {
	var need, waiting, want int64
	for i, c := range queue {
		if i == 0 {
			need = c.Need
		}
		if c.Next {
			behind = Ahead
		}
		waiting += c.Waiting
		want += c.Want
	}
	w := n.Slot.Ask(t, now, need, waiting, behind)
	w.Want = max(w.Want, want)
	return w
}

// Apply takes the reply to w, which was asked for queue, and answers each of
// these wants in order into grants, which has the length of queue. A child that
// gets nothing is denied as the node was. The part is to be given back above.
func (n *Node) Apply(t *Terms, now, sent Millis, w Want, g Grant, jitter Millis, queue []Want, grants []Grant) Part {
	left := g.Granted
	for i, c := range queue {
		grants[i] = share(t, now, sent, c, g, left, int64(len(queue)-i))
		left -= grants[i].Granted
		n.Slot.Spent += grants[i].Granted
	}
	return n.Slot.Apply(t, now, sent, w, g, left, jitter)
}

// share answers one of so many queued wants from what is left of the reply: what
// it waits for, and a part of the rest.
func share(t *Terms, now, sent Millis, c Want, g Grant, left, queued int64) Grant {
	if g.Status != OK && g.Status != Denied {
		return Grant{Status: g.Status}
	}
	ahead := left
	if !t.Refills {
		ahead = left / (2 * queued)
	}
	granted := min(c.Want, left, max(c.Waiting, ahead))
	if granted < max(c.Need, 1) {
		g.Status, g.Granted, g.StartsIn, g.TTL = Denied, 0, 0, 0
		g.AskAfter = max(g.AskAfter, 1)
		g.RetryAfter = max(g.RetryAfter, 1)
		return g
	}
	g.Status, g.Granted = OK, granted
	g.TTL = max(0, sent+g.TTL-now)
	g.Remaining += left - granted
	g.RetryAfter, g.AskAfter = 0, 0
	return g
}

// settle takes back what a child gives back, and passes on what it overdrew.
func (n *Node) settle(now Millis, w Want) Part {
	n.Slot.Overdrawn += w.Overdrawn
	n.Slot.Denied += w.Denied
	if w.Unused == 0 {
		return Part{}
	}
	for i := range n.Slot.Lots {
		if lot := &n.Slot.Lots[i]; lot.Lease == w.Lease && lot.Expiry > 0 && !lot.Local {
			lot.Units += w.Unused
			return Part{}
		}
	}
	return Part{Units: w.Unused, Lease: w.Lease, Expiry: now}
}

// cut grants a child part of one lot: of the older one that has what it needs
// and at least a quarter of its time left. (Below that the node tops up.)
func (n *Node) cut(t *Terms, now Millis, w Want) (Grant, bool) {
	if t.Consistency == Exact {
		return Grant{}, false
	}
	for i := range n.Slot.Lots {
		lot := &n.Slot.Lots[i]
		rest := lot.Expiry - now
		if lot.Local || lot.Units < max(w.Need, 1) || (lot.From > now) != w.Next || 4*rest < max(lot.TTL, 1) {
			continue
		}
		share := lot.Units
		if !t.Refills {
			share /= 2 * int64(max(n.asks+n.asksBefore, 1))
		}
		granted := min(w.Want, lot.Units, max(w.Waiting, share))
		if granted == 0 {
			return Grant{}, false
		}
		lot.Units -= granted
		n.Slot.Spent += granted
		if n.Slot.Available(now) == 0 {
			n.Slot.grow()
		}
		g := n.report(t, now)
		g.Granted, g.Lease, g.TTL, g.StartsIn = granted, lot.Lease, rest, max(0, lot.From-now)
		return g, true
	}
	return Grant{}, false
}

// refuses reports whether a want that no lot answers is over the limit by what
// the node knows. A want of an exact rule is refused only while its denial lasts.
func (n *Node) refuses(t *Terms, now Millis, w Want) bool {
	need := max(w.Need, 1)
	if t.Consistency == Exact {
		return n.Slot.takeExact(t, now, need).Verdict == Refuse
	}
	if w.Need == 0 && n.Slot.underWay(t, now) {
		return true
	}
	return n.Slot.refused(now, need)
}

func (n *Node) refusal(t *Terms, now Millis) Grant {
	g := n.report(t, now)
	g.Status = Denied
	g.RetryAfter = max(1, n.Slot.NextAsk-now, n.Slot.LimitedUntil-now)
	g.AskAfter = min(max(1, n.Slot.NextAsk-now), max(t.Interval, 1))
	return g
}

// report is a grant of nothing that tells what the node knows of the counter.
func (n *Node) report(t *Terms, now Millis) Grant {
	return Grant{
		Status:    OK,
		Limit:     t.Capacity,
		Remaining: n.Slot.Left + n.Slot.Available(now),
		Reset:     max(0, n.Slot.Reset-now),
	}
}

func (n *Node) countAsker(t *Terms, now Millis, fresh bool) {
	if i := int64(now / t.Interval); i != n.interval {
		before := int32(0)
		if i == n.interval+1 {
			before = n.asks
		}
		n.interval, n.asks, n.asksBefore = i, 0, before
	}
	if fresh {
		n.asks++
	}
}
