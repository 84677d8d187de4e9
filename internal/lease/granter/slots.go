package granter

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Slots is what a granter keeps of one key of a concurrency limit, as [Counter] is for
// units. The zero value is a key of which nothing is held.
type Slots struct {
	Held limit.Slots
	// Stated is the newest statement of each holder, by ascending holder, until the
	// holding that it made has run out. What a holder states is absolute and only its
	// newest statement is true: an older one that arrives later is ignored.
	Stated []Statement
}

// Statement is what is remembered of a holder's newest statement.
type Statement struct {
	Holder uint64
	Seq    uint64
	Until  limit.Micros
}

// Acquire applies what a holder, who is never 0, states in its call number seq, and answers how many slots it may hold in all: at
// least those that it uses and still had, up to Want. A statement older than the holder's
// newest changes nothing and is Unavailable.
func (s *Slots) Acquire(l *limit.Limit, t *lease.Terms, now limit.Micros, holder, seq uint64, w lease.Want) lease.Grant {
	if !s.accept(l, now, holder, seq) {
		return lease.Grant{Status: lease.Unavailable}
	}
	return s.charge(l, t, now, holder, w)
}

// Fit applies what the holder uses, and reports whether its need could be granted. If so
// nothing is granted yet, else it is denied. It is the first round of a group (package
// rounds); the second is [Slots.Acquire] of the same statement.
func (s *Slots) Fit(l *limit.Limit, t *lease.Terms, now limit.Micros, holder, seq uint64, w lease.Want) (g lease.Grant, fits bool) {
	if !s.accept(l, now, holder, seq) {
		return lease.Grant{Status: lease.Unavailable}, false
	}
	var d limit.HoldDecision
	s.Held, d = l.Hold(s.Held, now, holder, w.Holding, w.Holding)
	if fits = d.Granted-w.Holding+d.Remaining >= w.Need; fits {
		w.Need, w.Waiting, w.Want = 0, 0, 0
	}
	return s.charge(l, t, now, holder, w), fits
}

// charge decides on a statement that was accepted.
func (s *Slots) charge(l *limit.Limit, t *lease.Terms, now limit.Micros, holder uint64, w lease.Want) lease.Grant {
	using := w.Holding + w.Waiting
	held, d := l.Hold(s.Held, now, holder, using, max(using, w.Want))
	return s.grant(l, t, held, d, w.Holding+w.Need)
}

// Take takes cost slots for one request, all or none. A request that repeats it holds as
// many as before.
func (s *Slots) Take(l *limit.Limit, t *lease.Terms, now limit.Micros, request uint64, cost int64) lease.Grant {
	s.moveTo(l, now)
	held, d := l.AcquireSlot(s.Held, now, request, cost)
	return s.grant(l, t, held, d, cost)
}

// Renew prolongs what a request holds; Denied if that ran out.
func (s *Slots) Renew(l *limit.Limit, t *lease.Terms, now limit.Micros, request uint64) lease.Grant {
	s.moveTo(l, now)
	held, d := l.RenewSlot(s.Held, now, request)
	return s.grant(l, t, held, d, 1)
}

// Release gives back what a request holds.
func (s *Slots) Release(l *limit.Limit, t *lease.Terms, now limit.Micros, request uint64) lease.Grant {
	s.moveTo(l, now)
	held, _ := l.ReleaseSlot(s.Held, now, request)
	return s.grant(l, t, held, limit.HoldDecision{Remaining: max(0, l.Spec().Count-held.Used)}, 0)
}

func (s *Slots) grant(l *limit.Limit, t *lease.Terms, held limit.Slots, d limit.HoldDecision, need int64) lease.Grant {
	s.Held = held
	return t.SlotGrant(l, &d, need, len(held.Held) > 0)
}

// accept remembers a statement, unless a newer one of its holder has been accepted.
func (s *Slots) accept(l *limit.Limit, now limit.Micros, holder, seq uint64) bool {
	s.moveTo(l, now)
	i, known := s.find(holder)
	if !known {
		s.Stated = slices.Insert(s.Stated, i, Statement{Holder: holder})
	}
	newest := &s.Stated[i]
	if seq < newest.Seq {
		return false
	}
	newest.Seq, newest.Until = seq, s.Held.At+l.Spec().LeaseTTL
	return true
}

// moveTo lets time pass: holdings run out, and statements with them. Both are on the
// clock of the holdings, which does not step back; where that moves back because a clock
// was wrong, nothing of either lasts for longer than a ttl.
func (s *Slots) moveTo(l *limit.Limit, now limit.Micros) {
	before := s.Held.At
	s.Held = l.LapseSlots(s.Held, now)
	at := s.Held.At
	s.Stated = slices.DeleteFunc(s.Stated, func(t Statement) bool { return t.Until <= at })
	if at < before {
		for i := range s.Stated {
			s.Stated[i].Until = min(s.Stated[i].Until, at+l.Spec().LeaseTTL)
		}
	}
}

// Remembers reports whether a statement of a holder is kept.
func (s *Slots) Remembers(holder uint64) bool {
	_, known := s.find(holder)
	return known
}

func (s *Slots) find(holder uint64) (int, bool) {
	return slices.BinarySearchFunc(s.Stated, holder, func(t Statement, holder uint64) int {
		return cmp.Compare(t.Holder, holder)
	})
}

// Fresh reports whether the key may be forgotten: nothing is held, and no statement can
// arrive late any more.
func (s *Slots) Fresh(l *limit.Limit, now limit.Micros) bool {
	for _, t := range s.Stated {
		if now < t.Until {
			return false
		}
	}
	return l.FreshSlots(s.Held, now)
}

// Bytes is how much memory the slots take beside the struct.
func (s *Slots) Bytes() int { return 24 * (cap(s.Held.Held) + cap(s.Stated)) }
