package leasecache

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// owed is a debt of a caller on its way to the store: units that it admitted without a
// lease. The cache neither adds debts up nor pays them from its own leases: the caller
// repeats a debt until it is acknowledged, and only the store can distinguish a repetition from
// another debt.
type owed struct {
	ask     engine.Ask // the debt alone; its key is the caller's
	at      int        // index of the want's grant
	answers *answers
	only    bool                        // the want reports nothing else: the store's grant is the answer
	above   atomic.Pointer[lease.Grant] // the store's answer, if it has taken the debt
}

// takeDebts takes the debts out of asks and passes each on to the store, in an ask of its
// own that asks for nothing. The others are decided as if there were none. What it
// returns is a copy where there are debts: asks are the caller's.
func (q *acquisition) takeDebts(asks []engine.Ask) []engine.Ask {
	if !slices.ContainsFunc(asks, owes) {
		return asks
	}
	rest := slices.Clone(asks)
	for i := range rest {
		a := &rest[i]
		if !owes(*a) {
			continue
		}
		debt := engine.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Overdrawn: a.Want.Overdrawn, Debt: a.Want.Debt}}
		a.Want.Overdrawn, a.Want.Debt = 0, 0
		o := &owed{ask: debt, at: i, only: a.Group == 0 && a.Peeks()}
		q.owed = append(q.owed, o)
		if q.store.pauses(q.now, &debt) {
			if o.only {
				q.unavailable(i)
			}
			continue
		}
		if o.answers = q.awaiting(atEnd); o.only {
			o.answers.expect(i)
		} else {
			o.answers.expectDebt()
		}
		debt.Key = bytes.Clone(a.Key) // the caller may leave before it is sent
		q.asking().put(debt, pending{key: key{store: q.store}, owed: o})
	}
	return rest
}

func owes(a engine.Ask) bool {
	return a.Want.Overdrawn > 0 && a.Policy.Limit.Spec().Algorithm != limit.Concurrency
}

// onlyOwes reports whether grant i is the answer to a debt, or was given already.
func (q *acquisition) onlyOwes(a *engine.Ask, i int) bool {
	if q.owed == nil || !a.Peeks() {
		return false
	}
	return slices.ContainsFunc(q.owed, func(o *owed) bool { return o.at == i && o.only })
}

// reply takes the store's answer to a debt. The key learns from it, too.
func (o *owed) reply(now lease.Millis, s *Store, a *engine.Ask, g lease.Grant) {
	s.withEntry(a, func(k key) {
		k.Value.noteReply(now, g.Status)
		k.Value.relay.DebtReplied(&a.Policy.Terms, now, g)
	})
	if decided(g) {
		o.above.Store(&g)
	}
	if o.only {
		o.answers.answer(o.at, g)
	} else {
		o.answers.answerDebt()
	}
}

// answerDebts puts into the grants of wants what became of their debts. A holder that
// gives debts no number does not read StillOwed: its want is answered as not decided.
func (q *acquisition) answerDebts() {
	for _, o := range q.owed {
		g := &q.grants[o.at]
		switch above := o.above.Load(); {
		case above != nil:
			*g = o.ask.Policy.Terms.AfterDebt(*g, *above)
		case o.ask.Want.Debt != 0:
			g.StillOwed = true
		case decided(*g):
			if g.Granted > 0 {
				q.store.takeBackFor(&o.ask, *g)
			}
			*g = lease.Grant{Status: lease.Unavailable}
		}
	}
}

// takeBackFor settles a grant on an ask whose request was denied.
func (s *Store) takeBackFor(a *engine.Ask, g lease.Grant) {
	if !s.withEntry(a, func(k key) { k.takeBack(s.now(), g) }) {
		s.due.addAsk(a.GiveBack(&g))
	}
}

// pauses reports whether the store is not to be asked for a key.
func (s *Store) pauses(now lease.Millis, a *engine.Ask) (pauses bool) {
	s.withEntry(a, func(k key) { pauses = now < k.Value.pause })
	return pauses
}
